"""Where the time of decoding goes: network, decision, sampling, and the engine around them.

Measures inside the run, by watching the engine's own functions while a clock is on; it changes
nothing that is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import entropycache.engine.runner
from entropycache.engine import batch
from entropycache.engine.batch import Packed
from entropycache.engine.engine import Engine
from entropycache.engine.feature_pass import FeaturePass
from entropycache.engine.loop import Request
from entropycache.models.attention import attention

PARTS = ("network", "decision", "sampling", "engine")
"""``decision``: ``plan`` and ``observe`` of the policy, the choice of rows, its looks into a pass,
and what attention weights take beyond fused attention. ``sampling``: from logits to committed
tokens. ``engine``: all the rest.
"""
MEASURING = "measuring"


class Clock:
    """Seconds by part, each counted once: time in a part within another is the inner one's."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys((*PARTS, MEASURING), 0.0)
        self._open: list[str] = []
        self._since = 0.0
        self._device = device
        self.synchronizes = device.type == "cuda"

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what happens inside as ``name``'s."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted as ``name``'s."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return function(*arguments, **options)

        return wrapped

    def move(self, seconds: float, origin: str, target: str) -> None:
        """Count seconds of one part as another's."""
        self.seconds[origin] -= seconds
        self.seconds[target] += seconds

    @property
    def total(self) -> float:
        """Seconds of all parts, without what only the measurement took."""
        return sum(self.seconds[name] for name in PARTS)

    def _turn(self) -> None:
        """Give the time since the last turn to the part that is open."""
        if self.synchronizes:
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


class Front:
    """The network as the runner sees it, its passes and its output head timed."""

    def __init__(self, network: Any, clock: Clock) -> None:
        self._network = network
        self._call = clock.timed("network", network)
        self.logits = clock.timed("network", network.logits)

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def watch_request(request: Request, clock: Clock) -> None:
    """Time what a request's policy and strategy do; before its decoding begins."""
    policy, strategy = request.policy, request.strategy
    for name in ("plan", "observe", "layer", "tracked"):
        if hasattr(policy, name):
            setattr(policy, name, clock.timed("decision", getattr(policy, name)))
    for name in ("window", "choose"):
        object.__setattr__(strategy, name, clock.timed("sampling", getattr(strategy, name)))


@contextmanager
def watch_engine(engine: Engine, clock: Clock) -> Iterator[None]:
    """Time what the engine does for all requests while this is open."""
    runner: Any = engine.runner
    module: Any = entropycache.engine.runner
    replaced = [
        (runner, "network", Front(runner.network, clock)),
        (runner, "_alone", clock.timed("network", runner._alone)),
        (module, "score", clock.timed("sampling", module.score)),
        (module, "_union", clock.timed("decision", module._union)),
        (FeaturePass, "_drifted", clock.timed("decision", FeaturePass._drifted)),
        (Packed, "arrange", _watched_arrange(clock)),
        *_watched_attention(clock),
    ]
    before = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in replaced]
    for owner, name, found in replaced:
        setattr(owner, name, found)
    try:
        yield
    finally:
        for owner, name, found in before:
            delattr(owner, name) if found is None else setattr(owner, name, found)


def _watched_arrange(clock: Clock) -> Callable[..., Any]:
    """What is kept of layers' inputs is a policy's cost; where nothing is, there is none."""
    original = Packed.arrange
    timed = clock.timed("decision", original)

    def arrange(self: Packed, layer: int, x: torch.Tensor) -> Any:
        return (timed if self._keeping else original)(self, layer, x)

    return arrange


def _watched_attention(clock: Clock) -> list[tuple[Any, str, Any]]:
    """Attention weights are a policy's cost as far as they take longer than fused attention."""
    module: Any = batch
    weights, mix = module.attention_weights, module.mix
    seen: dict[str, Any] = {}

    def watched(q: Any, keys: Any) -> Any:
        seen.update(q=q, keys=keys, before=clock.seconds["decision"])
        with clock.part("decision"):
            return weights(q, keys)

    def mixed(found: Any, values: Any) -> Any:
        with clock.part("decision"):
            result = mix(found, values)
        before = clock.seconds[MEASURING]
        with clock.part(MEASURING):
            attention(seen["q"], seen["keys"], values)
        fused = clock.seconds[MEASURING] - before
        spent = clock.seconds["decision"] - seen["before"]
        clock.move(min(fused, spent), "decision", "network")
        return result

    return [(batch, "attention_weights", watched), (batch, "mix", mixed)]
