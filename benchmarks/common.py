"""What the benchmarks share: machine facts, random models of a chosen shape, results as JSON."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

import entropycache.runner
from entropycache.engine import Engine
from entropycache.models.llada import LLADA
from entropycache.models.random import random_network
from entropycache.models.transformer import Shape
from entropycache.problems import HeldOut, held_out
from entropycache.text import Text

RESULTS = Path(__file__).parent / "results"

HALF_BILLION = Shape(
    width=1024,
    layers=19,
    heads=16,
    kv_heads=16,
    head_dim=64,
    mlp_width=2816,
    vocab_size=126_464,
    norm_eps=1e-5,
    rope_theta=500_000.0,
    max_positions=8192,
)
"""0.50 B parameters with LLaDA's vocabulary."""


def random_engine(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> Engine:
    """An engine over random weights."""
    network = random_network(shape, dtype=dtype)
    network.requires_grad_(False)
    text = Text(None, shape.vocab_size - 1, frozenset({shape.vocab_size - 2}), shape.vocab_size)
    return Engine(network, LLADA, text)


def parameters(engine: Engine) -> int:
    """How many numbers the network has."""
    return sum(p.numel() for p in engine.network.parameters())


def problems(tasks: list[str], count: int) -> list[HeldOut]:
    """``count`` held-out problems, as many of each task."""
    per_task = -(-count // len(tasks))
    return [p for task in tasks for p in held_out(task)[:per_task]][:count]


def dtype_of(engine: Engine) -> str:
    """The dtype an engine computes in, by name."""
    return str(engine.network.embedding.dtype).removeprefix("torch.")


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "omp_wait_policy": os.environ["OMP_WAIT_POLICY"],
    }


def save(name: str, command: str, **numbers: Any) -> None:
    """Write ``results/name.json`` with the command and the machine, and print it."""
    RESULTS.mkdir(exist_ok=True)
    data = {"command": command, "machine": machine(), **numbers}
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps(numbers, indent=1))


def timed_union(spent: list[float]) -> None:
    """Count the time that the runner takes to select rows, in ``spent[0]``."""
    import time

    original = entropycache.runner._union

    def union(*arguments: Any) -> Any:
        began = time.perf_counter()
        found = original(*arguments)
        spent[0] += time.perf_counter() - began
        return found

    entropycache.runner._union = union
