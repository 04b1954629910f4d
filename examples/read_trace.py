"""Write a trace, read it back, and print for each step how much was recomputed and why. Then print
the answer, rebuilt from the trace alone.

    python examples/read_trace.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from entropycache import load
from entropycache.observers.trace import TracedRequest, TraceWriter, read_trace

QUESTION = [{"role": "user", "content": "Solve for t: 3*t = 12"}]


def told(request: TracedRequest, step: dict[str, Any], masked: np.ndarray) -> str:
    """One line for a step: the reason, the rows computed by kind, and the tokens committed.

    ``masked`` ``(length,)`` says which positions were masked before the step.
    """
    rows = np.arange(len(masked)) if step["full"] else np.array(step["rows"])
    answer = rows[rows >= request.start]
    kinds = {
        "prompt": len(rows) - len(answer),
        "committed": int((~masked[answer]).sum()),
        "masked": int(masked[answer].sum()),
    }
    counted = ", ".join(f"{count:3} {kind}" for kind, count in kinds.items())
    return f"{step['step']:3} {step['reason']:8} {counted}  commits {''.join(step['text'])!r}"


def main(path: Path) -> None:
    """Decode with a trace, then look at nothing but the trace."""
    engine = load("tiny")
    with TraceWriter(path, engine.tokenizer, "tiny") as writer:
        done = engine.generate(QUESTION, policy="entropy:tau=0.1", on_step=writer.write)

    trace = read_trace(path)
    (request,) = trace.requests.values()
    mask_id, before = trace.header["mask_id"], request.canvas
    for step, canvas in zip(request.steps, request.canvases(), strict=True):
        print(told(request, step, before == mask_id))
        before = canvas
    kept = before[request.start :]
    rebuilt = engine.tokenizer.decode(kept[kept != mask_id])
    print(f"rebuilt: {rebuilt!r}")
    print(f"decoded: {done.text!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "run.jsonl")
