"""Shared fixtures: the two tiny reference checkpoints, loaded once, on one thread."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from entropycache import Engine, load

DATA = Path(__file__).parent / "data"
FAMILIES = ("llada", "dream")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def engines() -> Callable[[str, str], Engine]:
    """``engines(family, dtype)``: the reference checkpoint of a family, cached."""
    loaded: dict[tuple[str, str], Engine] = {}

    def get(family: str, dtype: str = "float32") -> Engine:
        if (family, dtype) not in loaded:
            loaded[family, dtype] = load(str(DATA / family), dtype=dtype, device="cpu")
        return loaded[family, dtype]

    return get


@pytest.fixture(scope="session")
def tiny() -> Engine:
    """The embedded model."""
    return load("tiny", device="cpu")
