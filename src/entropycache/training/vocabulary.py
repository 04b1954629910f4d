"""The embedded model's tokenizer: byte-level BPE with single digits, special tokens as LLaDA's.

The chat template is LLaDA's as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

END = "<|endoftext|>"
MASK = "<|mdm_mask|>"
SPECIAL = (END, MASK, "<|startoftext|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")
CHAT_TEMPLATE = (
    "<|startoftext|>{% for message in messages %}"
    "<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


def train_tokenizer(lines: Iterable[str], vocab_size: int, folder: Path) -> PreTrainedTokenizerFast:
    """Train a tokenizer of ``vocab_size`` entries on ``lines``, and save it in ``folder``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex("####"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        mask_token=MASK,
        bos_token=SPECIAL[2],
    )
    fast.chat_template = CHAT_TEMPLATE
    save_tokenizer(fast, folder)
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` as LLaDA checkpoints have them.

    The configuration has class and template in the form that every release of transformers reads.
    The form that ``save_pretrained`` writes is read by the newest release alone.
    """
    tokenizer.save_pretrained(str(folder))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = {
        "bos_token": tokenizer.bos_token,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "mask_token": MASK,
        "model_max_length": 4096,
        "pad_token": END,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
