"""Event streams: what every step's canvas says, what every chunk holds, and text that arrives in
pieces of any kind.
"""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import numpy as np
import pytest

from entropycache import GenerationConfig
from tests.server.tools import one_thread, serving, small_engine

OPTIONS = {"tokens_per_step": 2, "policy": "entropy:tau=7.0,k=8", "gen_length": 20}


@pytest.fixture(scope="module")
def server():
    one_thread()
    with serving() as running:
        yield running


def post(url: str, body: dict) -> bytes:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as response:
        return response.read()


def events(server, path: str, body: dict) -> list[dict]:
    """Events of a stream, which must end with [DONE], line breaks where they belong."""
    raw = post(f"{server.url}{path}", body)
    assert raw.isascii()
    *lines, done, rest = raw.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(line.startswith("data: {") and "\n" not in line for line in lines)
    return [json.loads(line[6:]) for line in lines]


def test_a_canvas_stream_tells_every_step_as_the_engine_makes_it(server):
    opening, *steps, end = events(server, "/v1/canvas", {"prompt": "1 + 1 =", **OPTIONS})
    frames = list(small_engine().stream("1 + 1 =", GenerationConfig(**OPTIONS)))
    assert opening["event"] == "open" and len(steps) == len(frames)
    canvas = np.array(opening["canvas"])
    assert (canvas[opening["start"] :] == opening["mask_id"]).all()
    assert "".join(opening["prompt"]) == "1 + 1 ="
    for told, frame in zip(steps, frames, strict=True):
        step = frame.step
        assert (told["event"], told["step"]) == ("step", step.index)
        assert told["canvas"] == frame.canvas.tolist()
        assert told["positions"] == step.commit.positions.tolist()
        assert told["tokens"] == step.commit.tokens.tolist()
        assert told["entropy"] == pytest.approx(step.entropies.tolist(), abs=1e-5)
        assert told["confidence"] == pytest.approx(
            step.scores.confidence[step.commit.chosen].tolist(), abs=1e-5
        )
        assert told["window"] == step.window.positions.tolist()
        assert (told["reason"], told["full"]) == (step.plan.reason.value, step.full)
        assert told.get("rows") == (None if step.full else step.rows.tolist())
        canvas[told["positions"]] = told["tokens"]
        assert canvas.tolist() == told["canvas"]
    assert {step["full"] for step in steps} == {True, False}
    assert end["event"] == "end" and end["steps"] == len(steps)
    assert end["full_passes"] == sum(step["full"] for step in steps)
    assert end["rows_computed"] == sum(step["work"] for step in steps)
    whole = post(f"{server.url}/v1/completions", {"prompt": "1 + 1 =", **OPTIONS})
    (choice,) = json.loads(whole)["choices"]
    assert (end["text"], end["finish_reason"]) == (choice["text"], choice["finish_reason"])


def test_a_canvas_stream_takes_a_chat_but_not_both(server):
    chat = [{"role": "user", "content": "x"}]
    opening, *_ = events(server, "/v1/canvas", {"messages": chat, **OPTIONS})
    assert "assistant" in "".join(opening["prompt"])
    for body in ({}, {"prompt": "x", "messages": chat}):
        with pytest.raises(OSError, match="400"):
            post(f"{server.url}/v1/canvas", body)


def test_every_chunk_has_every_field(server):
    base = {"stream": True, "logprobs": True, "max_tokens": 6}
    head = {"id", "object", "created", "model", "system_fingerprint", "choices"}
    chat = {"messages": [{"role": "user", "content": "x"}], **base}
    for chunk in events(server, "/v1/chat/completions", chat):
        assert set(chunk) == head
        assert set(chunk["choices"][0]) == {"index", "delta", "logprobs", "finish_reason"}
    counted = base | {"prompt": "x", "logprobs": 1, "stream_options": {"include_usage": True}}
    *chunks, last = events(server, "/v1/completions", counted)
    for chunk in chunks:
        assert set(chunk) == head | {"usage"} and chunk["usage"] is None
        assert set(chunk["choices"][0]) == {"index", "text", "logprobs", "finish_reason"}
    assert set(last["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}


@pytest.mark.parametrize("seed", range(5))
def test_pieces_make_the_whole_whatever_is_drawn(server, seed):
    """Hot sampling: broken characters, special tokens, line separators, any order."""
    body = {
        "prompt": "x",
        "temperature": 8.0,
        "seed": seed,
        "tokens_per_step": 3,
        "window": 20,
        "gen_length": 40,
        "early_stop": seed % 2 == 0,
        "logprobs": 1,
    }
    whole = json.loads(post(f"{server.url}/v1/completions", body))["choices"][0]
    stops = [whole["text"][i : i + 2] for i in range(4, len(whole["text"]) - 2, 13)]
    for stop in ([], *([s] for s in stops if s and "\ufffd" not in s)):
        asked = body | {"stop": stop}
        expected = json.loads(post(f"{server.url}/v1/completions", asked))["choices"][0]
        chunks = events(server, "/v1/completions", asked | {"stream": True})
        choices = [chunk["choices"][0] for chunk in chunks]
        assert "".join(c["text"] for c in choices) == expected["text"]
        assert not any(s in expected["text"] for s in stop)
        assert choices[-1]["finish_reason"] == expected["finish_reason"]
        parts = [c["logprobs"] for c in choices if c["logprobs"]]
        for name, values in expected["logprobs"].items():
            assert [x for part in parts for x in part[name]] == values, name


def test_an_answer_that_begins_with_its_end_is_empty_and_fine(server, monkeypatch):
    monkeypatch.setattr(server.engine.tokenizer, "end_ids", frozenset(range(2, 2048)))
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5}
    found = json.loads(post(f"{server.url}/v1/chat/completions", body))
    (choice,) = found["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    assert found["usage"]["completion_tokens"] == 0
    chunks = events(server, "/v1/chat/completions", body | {"stream": True})
    first, last = (chunk["choices"][0] for chunk in chunks)
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert (last["delta"], last["finish_reason"]) == ({}, "stop")
