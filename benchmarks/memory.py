"""Peak memory of decoding a canvas of 4096 with LLaDA's vocabulary and a window as large as the
canvas. Run: ``python benchmarks/memory.py``.

A canvas × vocabulary tensor would take 2.07 GB in float32.
"""

from __future__ import annotations

import resource
from dataclasses import replace

import common

from entropycache.bench.random_models import HALF_BILLION, engine_of
from entropycache.models.llada import LLADA

CANVAS = 4096


def peak() -> float:
    """The largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Decode a few steps and compare the peak with the tensor that must not exist."""
    shape = replace(
        HALF_BILLION,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=512,
    )
    engine = engine_of(shape, LLADA)
    engine.generate([1, 2, 3], gen_length=8)  # weights and libraries are not to be counted
    before = peak()
    options = {"gen_length": CANVAS - 3, "window": CANVAS, "tokens_per_step": 1024}
    done = engine.generate([1, 2, 3], policy="none", **options)
    common.save(
        "memory",
        canvas=CANVAS,
        vocabulary=shape.vocab_size,
        forwards=done.forwards,
        peak_increase_mb=round(peak() - before),
        canvas_times_vocabulary_float32_mb=round(CANVAS * shape.vocab_size * 4 / 1e6),
    )


if __name__ == "__main__":
    main()
