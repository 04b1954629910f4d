"""The cost of the decision and of the engine beside the network, and of the network beside its bare
matmuls and attention. Run: ``python benchmarks/cost.py``.

The model is a random LLaDA of 0.5 B parameters in bfloat16. Only partial steps are counted, so the
share of the decision is the largest there is: a full pass costs more, and its decision the same.
Each step is followed by the bare operations of the same shapes.
"""

from __future__ import annotations

import common

from entropycache.bench.random_models import random_engine
from entropycache.bench.scaling import scale

CANVASES = (512, 1024, 4096)


def main() -> None:
    """Measure, and save the results."""
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
