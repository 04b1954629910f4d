"""What the engine adds to the network, and the network to its bare matmuls and attention, in a
partial step of a random 0.5 B LLaDA (bf16, canvas 1024). Run: ``python benchmarks/engine_cost.py``.

Each partial step is followed by the bare operations of the same shapes, so that a noisy machine
favours neither; medians over all steps.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import common
import torch
import torch.nn.functional as F

from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.loop import decode
from entropycache.policies import EntropyCache

CANVAS, STEPS = 1024, 40


class Stopwatch:
    """Wraps a function and counts its time."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any) -> Any:
        began = time.perf_counter()
        found = self.function(*arguments)
        self.seconds += time.perf_counter() - began
        return found


@torch.inference_mode()
def bare(engine: Engine, rows: int, predicted: int) -> float:
    """Seconds of the matmuls and attention of one pass, with the model's own weights."""
    network, s = engine.network, engine.network.shape
    x = torch.randn(rows, s.width).bfloat16()
    mixed = torch.randn(rows, s.heads * s.head_dim).bfloat16()
    inner = torch.randn(rows, s.mlp_width).bfloat16()
    query = torch.randn(1, s.heads, rows, s.head_dim).bfloat16()
    keys = torch.randn(1, s.heads, CANVAS, s.head_dim).bfloat16()
    began = time.perf_counter()
    for layer in network.typed_layers():
        F.linear(x, layer.qkv.weights[0])
        F.scaled_dot_product_attention(query, keys, keys)
        F.linear(mixed, layer.out)
        F.linear(x, layer.gate_up.weights[0])
        F.linear(inner, layer.down)
    F.linear(x[:predicted], network.head)
    return time.perf_counter() - began


def main() -> None:
    """Measure step, network and bare operations, interleaved."""
    engine = common.random_engine(common.HALF_BILLION)
    forward, head = Stopwatch(engine.network), Stopwatch(engine.network.logits)
    engine.network.logits = head  # type: ignore[method-assign]
    engine.runner.network = Front(engine.network, forward)  # type: ignore[assignment]
    config = GenerationConfig(gen_length=256, window=32, tokens_per_step=2)
    request = engine.track(0, [i % 1000 for i in range(CANVAS - 256)], config).request
    request.policy = EntropyCache(tau=1e9, k=64)
    steps = decode([request], engine.runner)
    for _ in range(34):  # until all 64 recent positions are there
        step = next(steps)
    totals, networks, bares = [], [], []
    for _ in range(STEPS):
        forward.seconds = head.seconds = 0.0
        began = time.perf_counter()
        step = next(steps)
        totals.append(time.perf_counter() - began)
        networks.append(forward.seconds + head.seconds)
        bares.append(bare(engine, len(step.rows), len(step.plan.predict)))
    steps.close()
    outside = [1 - n / t for n, t in zip(networks, totals, strict=True)]
    over = [n / b for n, b in zip(networks, bares, strict=True)]
    common.save(
        "engine_cost",
        "python benchmarks/engine_cost.py",
        parameters=common.parameters(engine),
        canvas=CANVAS,
        rows=len(step.rows),
        predicted=len(step.plan.predict),
        step_ms=1e3 * statistics.median(totals),
        network_ms=1e3 * statistics.median(networks),
        bare_ms=1e3 * statistics.median(bares),
        outside_percent=100 * statistics.median(outside),
        network_over_bare=statistics.median(over),
    )


class Front:
    """The network as the runner sees it, with its forward pass timed."""

    def __init__(self, network: Any, forward: Stopwatch) -> None:
        self._network = network
        self._forward = forward

    def __call__(self, *arguments: Any) -> Any:
        return self._forward(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


if __name__ == "__main__":
    main()
