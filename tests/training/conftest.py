"""The tokenizer of the embedded model, loaded once a module."""

from __future__ import annotations

import pytest

from entropycache.engine.engine import load


@pytest.fixture(scope="module")
def tokenizer():
    return load("tiny", device="cpu").tokenizer.backend
