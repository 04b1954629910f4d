"""The engine's thread: who runs, who waits, who is let go; and what one request's trouble costs the
others.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from urllib.request import Request, urlopen

import openai
import pytest

from entropycache import GenerationConfig
from entropycache.core.steps import Plan
from entropycache.engine.runner import Runner
from entropycache.policies.none import NoCache
from entropycache.server.responses import EventStream
from tests.server.tools import one_thread, serving, small_engine

LONG = {"max_tokens": 300, "extra_body": {"tokens_per_step": 1, "policy": "none"}}
SHORT = {"max_tokens": 4, "extra_body": {"gen_length": 8}}
ROOM = {"defaults": GenerationConfig(gen_length=300)}


@pytest.fixture(autouse=True)
def _one_thread():
    one_thread()


@pytest.fixture
def gate(monkeypatch):
    """Slows every plain pass down until it is opened, so that a test decides when one ends."""
    opened, plan = threading.Event(), NoCache.plan

    def wait(self, sequence, window) -> Plan:
        opened.wait(0.02)
        return plan(self, sequence, window)

    monkeypatch.setattr(NoCache, "plan", wait)
    return opened


def ask(client, **options):
    return client.completions.create(model="small", prompt="1 + 1 =", **options)


def metrics(running) -> dict[str, float]:
    """Every series of the server by its name and labels."""
    lines = urlopen(f"{running.url}/metrics").read().decode().splitlines()
    return {name: float(v) for name, v in (x.rsplit(" ", 1) for x in lines if x[0] != "#")}


def value(running, name: str, **labels: str) -> float:
    inside = ",".join(f'{k}="{v}"' for k, v in {**labels, "model_name": "small"}.items())
    ordered = ",".join(sorted(inside.split(",")))
    found = {}
    for key, number in metrics(running).items():
        base, _, rest = key.partition("{")
        found[base, ",".join(sorted(rest.rstrip("}").split(",")))] = number
    return found[f"entropycache:{name}", ordered]


def reaches(state) -> None:
    """Wait until a state is there."""
    for _ in range(3000):
        if state():
            return
        time.sleep(0.005)
    raise AssertionError("it never came to that")


def test_a_full_queue_says_when_to_come_back(gate):
    with serving(max_sequences=2, max_waiting=1, **ROOM) as running, running.client() as client:
        streams = [ask(client, stream=True, **LONG) for _ in range(3)]
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client, **SHORT)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.code == "queue_full"
        with pytest.raises(openai.RateLimitError):  # all of a request's choices, or none
            ask(client, n=2, **SHORT)
        reaches(lambda: value(running, "num_requests_waiting") == 1)
        assert value(running, "num_requests_running") == 2
        gate.set()
        for stream in streams:
            stream.close()
        running.settle()
        assert ask(client, **SHORT).choices
        assert running.slots == 0


def test_positions_are_limited_too_and_a_sequence_that_never_fits_is_refused(gate):
    with serving(max_positions=330, **ROOM) as running, running.client() as client:
        first = ask(client, stream=True, **LONG)
        second = ask(client, stream=True, max_tokens=30, extra_body={"gen_length": 30})
        third = ask(client, stream=True, max_tokens=5, extra_body={"gen_length": 5})
        # The third would fit beside the first, but is not the next.
        reaches(lambda: value(running, "num_requests_waiting") == 2)
        assert value(running, "num_requests_running") == 1
        gate.set()
        assert [len(list(s)) > 0 for s in (first, second, third)] == [True] * 3
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, max_tokens=350)
        assert caught.value.param == "gen_length"


def test_a_client_that_goes_away_frees_its_slot(gate):
    with serving(**ROOM) as running, running.client() as client:
        stream = ask(client, stream=True, **LONG)
        whole = socket.create_connection(("127.0.0.1", int(running.url.rsplit(":")[-1])))
        body = b'{"prompt": "x", "policy": "none", "tokens_per_step": 1}'
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        whole.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        reaches(lambda: running.service.engine_thread.held == 2)
        stream.close()
        whole.close()
        running.settle()
        assert running.slots == 0
        reaches(lambda: value(running, "request_success_total", finished_reason="abort") == 2)
        assert value(running, "num_requests_running") == 0


def test_nan_logits_cost_one_request_its_answer_and_nobody_else_anything(monkeypatch):
    engine = small_engine()
    alone = small_engine().generate("fine", GenerationConfig(gen_length=30, policy="none"))
    head, broken = engine.network.logits, threading.Event()

    def poisoned(hidden):
        logits = head(hidden)
        if broken.is_set():  # once; the first request's rows come first
            broken.clear()
            logits[0, 0] = float("nan")
        return logits

    monkeypatch.setattr(engine.network, "logits", poisoned)
    with serving(engine, **ROOM) as running, running.client() as client:
        stream = ask(client, stream=True, **LONG)
        next(iter(stream))
        found = []
        fine = threading.Thread(
            target=lambda: found.append(
                client.completions.create(
                    model="small",
                    prompt="fine",
                    extra_body={"gen_length": 30, "policy": "none"},
                )
            )
        )
        fine.start()
        reaches(lambda: value(running, "num_requests_running") == 2)
        broken.set()
        with pytest.raises(openai.APIError, match="NaN or infinite logits") as caught:
            list(stream)
        assert caught.value.code == "non_finite_logits"
        fine.join()
        assert found[0].choices[0].text == alone.text
        broken.set()
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client, n=3, **SHORT)
        assert (caught.value.code, caught.value.type) == ("non_finite_logits", "server_error")
        running.settle()
        assert running.slots == 0 and ask(client, **SHORT).choices
        assert value(running, "request_success_total", finished_reason="error") >= 2


def test_a_request_that_makes_the_engine_fail_costs_nobody_else_anything(monkeypatch):
    """Found by running alone what ran together; streams go on where they were."""
    broken, forward = threading.Event(), Runner.forward

    def fail(self, requests, plans):
        if broken.is_set() and any(len(request.sequence) == 77 for request in requests):
            raise ZeroDivisionError("a bug")
        if not broken.is_set():
            time.sleep(0.01)  # so that all are still there when it breaks
        return forward(self, requests, plans)

    monkeypatch.setattr(Runner, "forward", fail)
    wrong = {"prompt": [5] * 7, "extra_body": {"gen_length": 70, "policy": "none"}}
    own = {"tokens_per_step": 1, "policy": "none", "gen_length": 100}
    long = {"max_tokens": 100, "extra_body": own, "logprobs": 0}
    with serving(**ROOM) as running, running.client() as client:
        expected = ask(client, **long).choices[0]
        frames = post_stream(f"{running.url}/v1/canvas", {"prompt": "1 + 1 =", **own})
        streams = [ask(client, stream=True, **long) for _ in range(3)]
        begun = [next(iter(stream)) for stream in streams]
        steps = [next(frames) for _ in range(5)]
        culprit = client.completions.create(model="small", stream=True, **wrong)
        reaches(lambda: running.service.engine_thread.held == 5)
        broken.set()
        with pytest.raises(openai.APIError) as caught:
            list(culprit)
        assert caught.value.code == "internal_error" and "a bug" not in str(caught.value)
        for first, stream in zip(begun, streams, strict=True):
            choices = [chunk.choices[0] for chunk in (first, *stream)]
            assert "".join(c.text for c in choices) == expected.text
            tokens = [t for c in choices if c.logprobs for t in c.logprobs.tokens]
            assert tokens == expected.logprobs.tokens
        steps += list(frames)
        assert [s["step"] for s in steps[1:-1]] == list(range(100)) and steps[-1]["event"] == "end"
        running.settle()
        with pytest.raises(openai.InternalServerError) as caught:
            client.completions.create(model="small", **wrong)
        assert ask(client, **SHORT).choices
        assert urlopen(f"{running.url}/health").status == 200
        assert running.slots == 0 and not running.service.engine_thread._suspects


def post_stream(url: str, body: dict):
    """The events of a stream, as they come."""
    data = json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"})) as response:
        for line in response:
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])


def test_suspects_may_go_away(monkeypatch, gate):
    broken, forward = threading.Event(), Runner.forward

    def fail(self, requests, plans):
        if broken.is_set():
            broken.clear()
            raise ZeroDivisionError("once")
        return forward(self, requests, plans)

    monkeypatch.setattr(Runner, "forward", fail)
    with serving(**ROOM) as running, running.client() as client:
        streams = [ask(client, stream=True, **LONG) for _ in range(3)]
        reaches(lambda: value(running, "num_requests_running") == 3)
        broken.set()
        reaches(lambda: value(running, "num_requests_waiting") == 2)  # one runs alone
        for stream in streams[1:]:
            stream.close()
        gate.set()
        assert len(list(streams[0])) > 1
        running.settle()
        assert running.slots == 0 and not running.service.engine_thread._suspects


def test_a_text_that_cannot_be_read_fails_its_own_request_alone(monkeypatch):
    with serving(**ROOM) as running, running.client() as client:
        expected = ask(client, **SHORT).choices[0].text
        monkeypatch.setattr("entropycache.engine.stopping.StopCriteria.settled", lambda *a: 1 / 0)
        with pytest.raises(openai.APIError, match="could not be read"):
            list(ask(client, stream=True, **SHORT))
        assert ask(client, **SHORT).choices[0].text == expected
        assert running.slots == 0


def test_a_request_that_takes_too_long_is_told_so(gate):
    with serving(request_timeout=0.2, **ROOM) as running, running.client() as client:
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client, **LONG)
        assert (caught.value.status_code, caught.value.code) == (504, "timeout")
        with pytest.raises(openai.APIError, match="took longer than 0.2 seconds"):
            list(ask(client, stream=True, **LONG))
        gate.set()
        running.settle()
        assert running.slots == 0


def test_a_draining_server_finishes_what_it_accepted_and_refuses_the_rest(gate):
    with serving(**ROOM) as running, running.client() as client:
        stream = ask(client, stream=True, max_tokens=5, extra_body={"policy": "none"})
        running.service.engine_thread.drain()
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client, **SHORT)
        assert (caught.value.status_code, caught.value.code) == (503, "shutting_down")
        with pytest.raises(OSError, match="503"):
            urlopen(f"{running.url}/ready")
        assert urlopen(f"{running.url}/health").status == 200
        gate.set()
        assert list(stream)[-1].choices[0].finish_reason == "length"
        assert running.service.engine_thread.held == 0


def test_stopping_at_once_fails_what_runs(gate):
    with serving(**ROOM) as running, running.client() as client:
        stream = ask(client, stream=True, **LONG)
        stopper = threading.Thread(target=running.service.stop)
        stopper.start()
        gate.set()
        with pytest.raises(openai.APIError, match="shutting down"):
            list(stream)
        stopper.join()
        with pytest.raises(OSError, match="503"):
            urlopen(f"{running.url}/health")
        assert running.slots == 0


def test_positions_are_either_recomputed_or_reused():
    with serving(**ROOM) as running, running.client() as client:
        done = ask(client, max_tokens=40, extra_body={"policy": "entropy:tau=50"})
        running.settle()
        canvas = value(running, "diffusion_num_canvas_positions_total")
        recomputed = value(running, "diffusion_num_recomputed_positions_total")
        assert canvas == recomputed + value(running, "diffusion_num_reused_positions_total")
        assert 0 < recomputed < canvas
        assert value(running, "diffusion_full_passes_total", reason="first") == 1
        assert value(running, "generation_tokens_total") == done.usage.completion_tokens
        assert value(running, "prompt_tokens_total") == done.usage.prompt_tokens
        assert value(running, "diffusion_num_committed_tokens_total") >= 40
        assert value(running, "request_success_total", finished_reason="length") == 1
        for name in ("time_to_first_token", "e2e_request_latency", "time_per_output_token"):
            assert value(running, f"{name}_seconds_count") == 1


def test_metrics_take_the_prefix_that_dashboards_expect():
    with serving(metrics_prefix="vllm") as running:
        names = {name.partition("{")[0] for name in metrics(running)}
    assert {
        *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:prompt_tokens_total"),
        *("vllm:generation_tokens_total", "vllm:request_success_total"),
        *("vllm:time_to_first_token_seconds_bucket", "vllm:e2e_request_latency_seconds_sum"),
        *("vllm:diffusion_num_denoising_steps_total", "vllm:diffusion_num_canvas_positions_total"),
        "vllm:diffusion_num_committed_tokens_total",
    } <= names


def test_a_reader_that_stops_reading_is_let_go():
    """However slowly a client reads, its stream ends, and its sequences with it."""
    closed = []

    async def endless():
        while True:
            yield {"more": True}

    async def never(message):
        await asyncio.sleep(1000)

    async def silent():
        await asyncio.sleep(1000)

    async def watch():
        stream = EventStream(endless(), lambda: closed.append(True), seconds=-4.9)
        await asyncio.wait_for(stream({"type": "http"}, silent, never), 10)

    asyncio.run(watch())
    assert closed == [True]
