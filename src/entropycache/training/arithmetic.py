"""Which arithmetic a training run uses on the processor it has."""

from __future__ import annotations

import time

import torch

from entropycache.models import loading
from entropycache.training.settings import TrainConfig


def faster_in_bfloat16(config: TrainConfig) -> bool:
    """Whether this processor multiplies a batch by a layer's largest matrix faster in bfloat16 than
    in float32, on the best of five tries each: some that have bfloat16 instructions take twice as
    long by them.
    """
    if not loading.native_bfloat16(torch.device("cpu")):
        return False
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        rows = torch.ones(config.batch_tokens, config.shape.width, dtype=dtype)
        matrix = torch.ones(config.shape.width, 2 * config.shape.mlp_width, dtype=dtype)
        tries = []
        for _ in range(5):
            began = time.perf_counter()
            torch.mm(rows, matrix)
            tries.append(time.perf_counter() - began)
        seconds[dtype] = min(tries)
    return seconds[torch.bfloat16] < seconds[torch.float32]
