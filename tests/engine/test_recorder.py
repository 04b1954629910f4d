"""The recorder by itself, under a clock that stands still: each second is counted once, for the
part that is open.
"""

from __future__ import annotations

import pytest
import torch

from entropycache.engine.timing import MEASURING, Recorder


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    told = Clock()
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: told.now)
    return told


def recorded(recorder: Recorder) -> dict[str, float]:
    """The parts that any time was counted for."""
    return {name: seconds for name, seconds in recorder.seconds.items() if seconds}


def test_time_in_an_inner_part_is_the_inner_ones_and_time_in_no_part_is_nobodys(clock):
    recorder = Recorder(torch.device("cpu"))
    clock.spend(32)
    with recorder.part("engine"):
        clock.spend(1)
        with recorder.part("network"):
            clock.spend(2)
        clock.spend(4)
    clock.spend(8)
    with recorder.part("sampling"):
        clock.spend(16)
    assert recorded(recorder) == {"engine": 5.0, "network": 2.0, "sampling": 16.0}


def test_a_part_that_raises_is_closed(clock):
    recorder = Recorder(torch.device("cpu"))
    with recorder.part("engine"):
        with pytest.raises(KeyError), recorder.part("network"):
            clock.spend(1)
            raise KeyError
        clock.spend(2)
    assert recorded(recorder) == {"engine": 2.0, "network": 1.0}


def test_the_excess_is_what_goes_beyond_the_usual_and_never_below_nothing(clock):
    recorder = Recorder(torch.device("cpu"))
    for spent, usual in ((5, 2), (1, 4)):
        with recorder.part("network"), recorder.excess("decision", lambda n=usual: clock.spend(n)):
            clock.spend(spent)
    # 5 - 2 and nothing of 1 are the decision's; 2 and 1 took the place of the usual.
    assert recorded(recorder) == {"decision": 3.0, "network": 3.0, MEASURING: 6.0}


def test_the_total_leaves_out_what_only_the_measurement_took_and_reset_forgets_all(clock):
    recorder = Recorder(torch.device("cpu"))
    with recorder.part("network"), recorder.excess("decision", lambda: clock.spend(2)):
        clock.spend(5)
    assert recorder.total == 5.0
    recorder.reset()
    assert (recorded(recorder), recorder.total) == ({}, 0.0)
    with recorder.part("engine"):
        clock.spend(1)
    assert recorded(recorder) == {"engine": 1.0}


def test_a_gpu_is_waited_for_where_parts_start_and_end_and_a_cpu_is_not(clock, monkeypatch):
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    for name, times in (("cpu", 0), ("cuda", 2)):
        device = torch.device(name)
        with Recorder(device).part("network"):
            assert len(waited) == times / 2
        assert waited == [device] * times
