"""Jobs and the thread that runs them, without a server around: what a failing watch costs, and what
the times of earlier requests say about the next.
"""

from __future__ import annotations

import threading

import pytest

from entropycache import GenerationConfig
from entropycache.engine.loop import decode
from entropycache.policies import NoCache
from entropycache.server.engine_thread import EngineThread
from entropycache.server.errors import ApiError
from entropycache.server.jobs import Event, Job
from entropycache.server.metrics import Metrics
from entropycache.server.settings import ServerSettings

CONFIG = GenerationConfig(policy="none", gen_length=6, tokens_per_step=1, early_stop=False)


class Quiet:
    """A watch that tells nothing, or fails at a step."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.seen: list[int] = []

    def restart(self, request):
        raise AssertionError("nothing starts anew here")

    def step(self, step):
        self.seen.append(step.index)
        if step.index == self.fails_at:
            raise ValueError("unreadable")

    def end(self, completion):
        return "the end"


def job(engine, watch, sent, number=0) -> Job:
    def make():
        raise AssertionError("nothing starts anew here")

    return Job(0, engine.request(number, [4, 5], CONFIG), make, watch, sent.append)


def test_a_request_whose_watch_fails_makes_no_further_step(engines):
    engine, sent = engines("llada"), []
    watch = Quiet(fails_at=2)
    told = job(engine, watch, sent)
    steps = []
    for step in decode([told.request], engine.runner):
        told.note(step)
        steps.append(step.index)
    assert steps == watch.seen == [0, 1, 2]
    told.end(told.request.complete())
    (event,) = sent
    assert event.last and event.error is not None and event.error.code == "internal_error"


def test_a_watch_that_failed_is_asked_no_more_whoever_goes_on_decoding(engines):
    engine, sent = engines("llada"), []
    watch = Quiet(fails_at=0)
    told = job(engine, watch, sent)
    steps = list(decode([told.request], engine.runner))
    for step in steps[:3]:
        told.note(step)
    assert watch.seen == [0]


def test_the_first_token_is_that_of_the_answer_not_of_the_canvas(engines, monkeypatch):
    engine = engines("llada")
    told = job(engine, Quiet(), [])
    monkeypatch.setattr(
        type(told.request.sequence), "first_masked", lambda self: self.start + (self.steps >= 3)
    )
    firsts = []
    for step in decode([told.request], engine.runner):
        told.note(step)
        firsts.append(told.first is not None)
        if len(firsts) == 4:
            break
    assert firsts == [False, False, True, True]


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for what a test lets pass."""
    now = [1000.0]
    monkeypatch.setattr("entropycache.server.engine_thread.time.perf_counter", lambda: now[0])
    return now


def refused(thread: EngineThread) -> int:
    """Seconds after which a client is told to try again."""
    with pytest.raises(ApiError) as caught:
        thread.reserve(1)
    assert caught.value.code == "queue_full"
    return int(caught.value.headers["Retry-After"])


def test_retry_after_follows_how_long_requests_ran(engines, clock):
    """The mean moves a fifth of the way to each time; those who wait ahead count as well, time in
    the queue does not, and nobody is sent away for more than a minute.
    """

    class Slow(NoCache):
        def plan(self, sequence, window):
            if not sequence.steps:
                clock[0] += 101
            return super().plan(sequence, window)

    engine, settings = engines("llada"), ServerSettings("x", max_sequences=2, max_waiting=1)
    thread = EngineThread(engine, settings, Metrics("test", "x"))
    thread.reserve(3)
    assert refused(thread) == 2, "a second, and half of one for the one that waits"
    thread.release(3)
    ended, sent = threading.Event(), []

    def send(event: Event) -> None:
        sent.append(event)
        ended.set()

    thread.start()
    try:
        for number, seconds in enumerate((32, 56, 60)):  # 1.5 times 21, 37 and 49.8
            ended.clear()
            thread.reserve(1)
            one = Job(0, engine.request(number, [4, 5], CONFIG), lambda: None, Quiet(), send)
            one.request.policy = Slow()
            clock[0] += 5000  # between the client's request and its turn
            thread.submit([one])
            assert ended.wait(60)
            thread.reserve(3)
            assert refused(thread) == seconds
            thread.release(3)
    finally:
        thread.stop()
    assert [event.told for event in sent] == ["the end"] * 3


def test_a_job_that_has_ended_can_be_cancelled_and_nothing_comes_of_it(engines, caplog):
    engine, sent = engines("llada"), []
    thread = EngineThread(engine, ServerSettings("x"), Metrics("test", "x"))
    thread.start()
    try:
        for number in range(2):
            ended = threading.Event()
            one = job(engine, Quiet(), sent, number)
            one.send = lambda event, done=ended: (sent.append(event), done.set())
            thread.reserve(1)
            thread.submit([one])
            assert ended.wait(60)
            thread.cancel([one])
    finally:
        thread.stop()
    assert [event.told for event in sent] == ["the end"] * 2
    assert thread.held == 0 and not caplog.records


def test_a_thread_that_was_stopped_takes_nothing_new(engines):
    thread = EngineThread(engines("llada"), ServerSettings("x"), Metrics("test", "x"))
    thread.start()
    thread.stop()
    assert thread.draining and not thread.alive
    with pytest.raises(ApiError, match="shutting down"):
        thread.reserve(1)
    assert thread.held == 0
