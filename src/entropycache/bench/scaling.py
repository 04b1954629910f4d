"""The time of a step and of its decision by length of the canvas, on a random model, and the
distance of a step from the bare matmuls and attention that it needs.

A random network is never sure of a token, so the number of tokens committed a step, and the share
of full passes, are set from outside.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from entropycache.config.generation import GenerationConfig
from entropycache.core.steps import Step
from entropycache.engine.engine import Engine
from entropycache.engine.loop import decode
from entropycache.engine.timing import PARTS, Recorder
from entropycache.errors import OptionError

POLICIES = ("none", "entropy:tau=1e9")
"""Every pass full, and every pass partial but the first. Partial passes are the cheapest, so the
share of deciding is at its largest.
"""
GENERATED, COMMITTED, SETTLED = 256, 4, 17
"""Positions of the generated region; tokens committed a step, about as many as a threshold of 0.9
commits on a trained model; steps after which there are 64 recent positions, the default ``k``.
"""


def scale(
    engine: Engine, canvases: Sequence[int], policies: Sequence[str] = POLICIES, steps: int = 20
) -> Iterator[dict[str, Any]]:
    """One row of numbers for each policy and canvas length (positions), over ``steps`` steps.

    Keys end with their unit: ``_ms`` are medians in milliseconds, ``_percent`` shares of the time.
    ``network_over_bare`` is the time of the network over that of its bare operations. Raises
    ``OptionError`` for a canvas that is too short and for too many steps.
    """
    if min(canvases) < GENERATED:
        raise OptionError(
            f"a canvas has at least its {GENERATED} generated positions, not {min(canvases)}"
        )
    if SETTLED + steps > GENERATED // COMMITTED:
        raise OptionError(
            f"at most {GENERATED // COMMITTED - SETTLED} steps can be timed, not {steps}"
        )
    _measure(engine, canvases[0], policies[-1], 2)  # warm-up
    for canvas in canvases:
        for policy in policies:
            yield _measure(engine, canvas, policy, steps)


def _measure(engine: Engine, canvas: int, policy: str, steps: int) -> dict[str, Any]:
    config = GenerationConfig(
        policy=policy, gen_length=GENERATED, window=32, tokens_per_step=COMMITTED, early_stop=False
    )
    prompt = [i % 1000 for i in range(canvas - GENERATED)]
    recorder = Recorder(engine.network.embedding.device)
    request = engine.request(0, prompt, config)
    timed: list[dict[str, float]] = []
    bares: list[float] = []
    with engine.recording(recorder):
        running = decode([request], engine.runner)
        settled = 1 if policy == "none" else SETTLED
        for _ in range(settled):
            step = next(running)
        for _ in range(steps):
            recorder.reset()
            with recorder.part("engine"):
                step = next(running)
            timed.append(dict(recorder.seconds))
            # Right after the step, so that both meet the same clock speed and the same neighbours.
            bares.append(_bare(engine, step, canvas))
        running.close()
    return _numbers(policy, canvas, step, timed, bares)


def _numbers(
    policy: str, canvas: int, step: Step, timed: list[dict[str, float]], bares: list[float]
) -> dict[str, Any]:
    totals = [sum(parts[name] for name in PARTS) for parts in timed]
    medians = {name: 1e3 * statistics.median(parts[name] for parts in timed) for name in PARTS}
    decisions = [parts["decision"] for parts in timed]
    outside = [(p["engine"] + p["sampling"] + p["decision"]) for p in timed]
    over = [p["network"] / b for p, b in zip(timed, bares, strict=True)]
    return {
        "policy": policy,
        "canvas": canvas,
        "rows": round(step.work, 1),
        "predicted": len(step.plan.predict),
        "steps": len(timed),
        "step_ms": round(1e3 * statistics.median(totals), 3),
        **{f"{name}_ms": round(value, 3) for name, value in medians.items()},
        "decision_percent": round(100 * sum(decisions) / sum(totals), 3),
        "outside_network_percent": round(100 * sum(outside) / sum(totals), 2),
        "bare_ms": round(1e3 * statistics.median(bares), 3),
        "network_over_bare": round(statistics.median(over), 3),
    }


@torch.inference_mode()
def _bare(engine: Engine, step: Step, canvas: int) -> float:
    """Seconds of the matmuls and attention of one pass, with the model's own weights.

    In the last layer only predicted rows go past attention, as in the engine.
    """
    network, s = engine.network, engine.network.config
    like = network.embedding
    rows, predicted = max(1, round(step.work)), len(step.plan.predict)

    def random(*size: int) -> torch.Tensor:
        return torch.randn(size, dtype=like.dtype, device=like.device)

    x, mixed = random(rows, s.hidden_size), random(rows, s.num_attention_heads * s.head_dim)
    inner = random(rows, s.intermediate_size)
    shared = s.num_attention_heads // s.num_key_value_heads
    query = random(1, s.num_key_value_heads, rows * shared, s.head_dim)
    keys = random(1, s.num_key_value_heads, canvas, s.head_dim)
    recorder = Recorder(like.device)
    with recorder.part("network"):
        for index, layer in enumerate(network.typed_layers(), 1):
            F.linear(x, layer.qkv.weights[0])
            F.scaled_dot_product_attention(query, keys, keys)
            if index == s.num_hidden_layers:
                x, mixed, inner = x[:predicted], mixed[:predicted], inner[:predicted]
            F.linear(mixed, layer.out)
            F.linear(x, layer.gate_up.weights[0])
            F.linear(inner, layer.down)
        F.linear(x[:predicted], network.head)
    return recorder.seconds["network"]
