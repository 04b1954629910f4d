"""Many clients at once: every answer is what it is alone, and nothing is left behind. The soak of
``benchmarks/serve.py``, in short.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from entropycache import GenerationConfig
from tests.server.tools import one_thread, serving

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def crowd():
    """The benchmark's clients."""
    sys.path.insert(0, BENCHMARKS)
    try:
        import load

        yield load
    finally:
        sys.path.remove(BENCHMARKS)


@pytest.mark.parametrize("vanishing", [False, True])
def test_64_clients_get_the_answers_they_get_alone(crowd, vanishing):
    one_thread()
    defaults = GenerationConfig(gen_length=24)
    with serving(defaults=defaults, max_waiting=30) as running:
        port = int(running.url.rsplit(":")[-1])
        bodies = crowd.requests(36, lengths=(4, 12, 24))
        found: Counter[str] = Counter()
        while found["equal"] < 64 or (vanishing and found["left"] < 30):  # however slow
            found += Counter(asyncio.run(crowd.soak(port, bodies, 64, 2.0, vanishing)))
            assert found["different"] == found["errors"] == 0
        running.settle()
        assert bool(found["left"]) == vanishing
        assert running.slots == 0
        scheduler = running.service.engine_thread
        assert not scheduler._jobs and not scheduler._inbox
        assert not scheduler._scheduler.running and not scheduler._scheduler.waiting
