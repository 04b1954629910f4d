"""What deciding and the engine cost beside the network, in the partial steps of a random LLaDA of
0.5 B parameters (bf16), and how far the network is from its bare matmuls and attention. Run:
``python benchmarks/cost.py``.

Partial steps alone are counted, so the share of deciding is the largest there is: a full pass costs
more and its decision the same. Each step is followed by the bare operations of the same shapes.
"""

from __future__ import annotations

import common

from entropycache.bench.random_models import random_engine
from entropycache.bench.scaling import scale

CANVASES = (512, 1024, 4096)


def main() -> None:
    """Measure and save."""
    engine = random_engine("llada-0.5b")
    rows = list(scale(engine, CANVASES, ("entropy:tau=1e9",), steps=40))
    common.save(
        "cost",
        parameters=engine.network.parameter_count,
        dtype="bfloat16",
        rows=rows,
    )


if __name__ == "__main__":
    main()
