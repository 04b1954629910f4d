"""Files and text: JSON lines, prompt files, tokenizers, results, and what they were made on."""
