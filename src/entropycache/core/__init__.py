"""The vocabulary of decoding: a canvas, and what one step plans, scores and commits. A leaf."""
