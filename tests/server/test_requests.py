"""What cannot be honoured is a 400 that names the field; whatever is sent, the server goes on."""

from __future__ import annotations

import dataclasses
import json
from urllib.request import urlopen

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from entropycache import GenerationConfig
from entropycache.errors import OptionError
from entropycache.policies import POLICIES
from entropycache.server.app import create_app
from entropycache.server.settings import ServerSettings
from tests.server.tools import one_thread, serving, small_engine

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
LIMITS = {"max_sequences": 4, "max_waiting": 60, "max_positions": 300, "max_request_bytes": 9000}


@pytest.fixture(scope="module")
def app():
    one_thread()
    defaults = GenerationConfig(gen_length=12)
    return create_app(small_engine(), ServerSettings("small", defaults, **LIMITS))


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def error_of(response, status: int = 400) -> dict:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and "\n" not in error["message"]
    return error


def test_a_calibrated_policy_goes_by_its_name_where_there_is_one(client):
    body = {"prompt": "1 + 1", "policy": "calibrated", "max_tokens": 4}
    assert error_of(client.post(TEXT, json=body))["param"] == "policy"
    engine = small_engine()
    engine.calibrated = "entropy:tau=0.5,k=8"
    defaults = GenerationConfig(gen_length=12)
    with TestClient(create_app(engine, ServerSettings("small", defaults, **LIMITS))) as calibrated:
        named = calibrated.post(TEXT, json=body)
        spelt = calibrated.post(TEXT, json={**body, "policy": engine.calibrated})
    assert named.status_code == 200, named.text
    assert named.json()["choices"] == spelt.json()["choices"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("temperature", v) for v in (-1, "hot", True, [1], {})),
        *(("top_p", v) for v in (0, 1.5, "x")),
        *(("n", v) for v in (0, -1, 1.5, True, "2", 10**6)),
        *(("max_tokens", v) for v in (0, -5, 10**9, "many")),
        *(("seed", v) for v in (-1, 2**63, 1.5)),
        *(("stop", v) for v in ("", [""], 5, [5], ["x"] * 17, "\ufffd")),
        *(("policy", v) for v in ("nothing", "entropy:x=1", "entropy:k=x", 5, "a" * 300)),
        *(("policy", v) for v in ("os:path", "tests.server.tools:Running", "entropy:k=-1", "")),
        *(("gen_length", v) for v in (0, 10**15)),
        *(("block_length", v) for v in (0, 10**12)),
        *(("window", v) for v in (0, 10**12)),
        *(("steps", v) for v in (0, 10**12)),
        *(("tokens_per_step", v) for v in (0, 10**40)),
        *(("threshold", v) for v in (0, 1.1)),
        *(("confidence", v) for v in ("best", 3)),
        *(("order", v) for v in ("backwards", "random")),
        ("alg", "entropy"),
        ("alg_temp", 0.5),
        ("eb_gamma", -1),
        *(("sigma", v) for v in (0, 1e200, 1e-200)),
        *(("temperature", v) for v in (1e-300, 1e300)),
        *(("policy", v) for v in ("d2:sigma=1e200", "entropy:tau=nan", "entropy:k=99999999999")),
        ("factor", 0),
        *(("top_k", v) for v in (-1, 10**30)),
        ("diffusion_max_steps", 0),
        ("max_new_tokens", 5),
        ("early_stop", "yes"),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -1),
        ("logit_bias", {"5": 1}),
        ("gen_len", 5),
        ("model", 5),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_what_cannot_be_honoured_is_refused_by_name(client, path, field, value):
    body = HELLO if path == CHAT else {"prompt": "hello"}
    assert error_of(client.post(path, json={**body, field: value}))["param"] == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "user", "content": None}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x", "name": "me"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": "fill <|mdm_mask|>"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x " * 2000}]}, "messages"),
        ({**HELLO, "tools": [{"type": "function"}]}, "tools"),
        ({**HELLO, "tool_choice": "auto"}, "tool_choice"),
        ({**HELLO, "response_format": {"type": "json_object"}}, "response_format"),
        ({**HELLO, "top_logprobs": 3}, "top_logprobs"),
        ({**HELLO, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({**HELLO, "logprobs": 1}, "logprobs"),
        ({**HELLO, "max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({**HELLO, "threshold": 0.5, "steps": 4}, "steps"),
        ({**HELLO, "window": 4, "block_length": 4}, "block_length"),
        ({**HELLO, "policy": "dkv-greedy"}, "policy"),
        ({**HELLO, "gen_length": 380}, "messages"),  # not beside this prompt
        ({**HELLO, "gen_length": 290}, "gen_length"),  # more than this server holds
        ({**HELLO, "n": 65}, "n"),
        ({**HELLO, "seed": 2**63 - 1, "n": 2}, "seed"),
        ({**HELLO, "steps": 5, "block_length": 4}, "steps"),
    ],
)
def test_what_is_wrong_with_a_chat_is_named(client, body, field):
    # By hand, as a lone surrogate cannot be sent in any other way.
    sent = client.post(CHAT, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert error_of(sent)["param"] == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1]}, "prompt"),  # the mask
        ({"prompt": [5] * 400}, "prompt"),
        ({"prompt": ["a"] * 65}, "n"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "suffix": "b"}, "max_tokens"),
        ({"prompt": "a", "suffix": "b", "max_tokens": 4, "stop": "x"}, "stop"),
        ({"prompt": "a", "suffix": "b", "max_tokens": 4, "early_stop": True}, "early_stop"),
        ({"prompt": "a", "suffix": "b", "max_tokens": 4, "gen_length": 5}, "gen_length"),
        ({"prompt": "a", "suffix": "<|mdm_mask|>", "max_tokens": 4}, "suffix"),
    ],
)
def test_what_is_wrong_with_a_completion_is_named(client, body, field):
    assert error_of(client.post(TEXT, json=body))["param"] == field


def test_values_that_change_nothing_are_accepted(client):
    neutral = {
        **{"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": None, "tools": []},
        **{"tool_choice": "none", "response_format": {"type": "text"}, "store": False},
        **{"stop": [], "n": None, "user": "me", "model": "small", "stream": False},
    }
    plain = client.post(CHAT, json=HELLO).json()
    assert client.post(CHAT, json=HELLO | neutral).json()["choices"] == plain["choices"]


def test_without_a_length_the_canvas_is_what_the_model_has_room_for(client):
    long = {"prompt": [5] * 282}
    assert client.post(TEXT, json=long).json()["usage"]["prompt_tokens"] == 282
    told = client.post("/v1/canvas", json=long).text.split("\n")[0].removeprefix("data: ")
    assert len(json.loads(told)["canvas"]) == 294
    assert error_of(client.post(TEXT, json={"prompt": [5] * 380}))["param"] == "gen_length"
    gone = error_of(client.post(TEXT, json={"prompt": [5] * 384}))
    assert (gone["param"], gone["code"]) == ("prompt", "context_length_exceeded")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 4000, b'{"n": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_is_not_an_object_is_refused(client, body):
    error_of(client.post(CHAT, content=body, headers={"Content-Type": "application/json"}))


def test_json_sent_as_something_else_is_refused(client):
    body = json.dumps(HELLO)
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        error_of(client.post(CHAT, content=body, headers={"Content-Type": kind}))


def test_a_large_request_is_refused_whether_announced_or_not(client):
    big = json.dumps({"prompt": "x" * 10_000}).encode()
    headers = {"Content-Type": "application/json"}
    announced = error_of(client.post(TEXT, content=big, headers=headers), 413)
    streamed = error_of(
        client.post(TEXT, content=iter([big[:5000], big[5000:]]), headers=headers), 413
    )
    assert announced == streamed and announced["code"] == "request_too_large"


def test_unknown_paths_and_methods_are_errors_in_the_same_shape(client):
    assert error_of(client.get("/v1/nothing"), 404)["code"] == "not_found"
    assert error_of(client.get(CHAT), 405)["code"] == "method_not_allowed"
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/index.html", "/docs"):
        error_of(client.get(path), 404)


def test_text_to_ids_and_back(client):
    found = client.post("/tokenize", json={"prompt": "1 + 1 ="}).json()
    assert (found["count"], found["max_model_len"]) == (len(found["tokens"]), 384)
    assert (
        client.post("/detokenize", json={"tokens": found["tokens"]}).json()["prompt"] == "1 + 1 ="
    )
    chat = client.post("/tokenize", json=HELLO).json()
    assert chat["count"] == client.post(CHAT, json=HELLO).json()["usage"]["prompt_tokens"]
    assert client.post("/tokenize", json={"prompt": ""}).json()["count"] == 0
    assert error_of(client.post("/tokenize", json={}))["param"] == "prompt"
    assert error_of(client.post("/detokenize", json={"tokens": [10**6]}))["param"] == "tokens"
    assert error_of(client.post("/tokenize", json={"prompt": "x", "model": "y"}), 404)


def test_the_document_announces_what_is_answered(client):
    document = client.get("/openapi.json").json()
    answered = {
        s for path in document["paths"].values() for o in path.values() for s in o["responses"]
    }
    assert "400" in answered and "422" not in answered
    assert "422" not in json.dumps(document) and "HTTPValidationError" not in json.dumps(document)
    assert "/page/main.js" not in document["paths"]


def test_the_state_of_the_server_can_be_asked(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}
    assert client.get("/version").json()["version"][0].isdigit()


def test_a_key_is_asked_for_wherever_the_model_is_used():
    app = create_app(small_engine(), ServerSettings("small", api_key="s3cret"))
    with TestClient(app) as client:
        for path in (CHAT, "/tokenize", "/v1/canvas"):
            for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "s3cret"}):
                refused = client.post(path, json={}, headers=headers)
                assert error_of(refused, 401)["code"] == "invalid_api_key"
        right = {"Authorization": "Bearer s3cret"}
        assert client.get("/v1/models", headers=right).status_code == 200
        assert client.get("/v1/models").status_code == 401
        for path in ("/", "/health", "/metrics", "/page/main.js"):
            assert client.get(path).status_code == 200


def test_other_sites_may_call_only_where_that_was_said():
    headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    for origins, allowed in (((), None), (("https://a.example",), "https://a.example")):
        app = create_app(small_engine(), ServerSettings("small", cors_origins=origins, api_key="k"))
        with TestClient(app) as client:
            found = client.options(CHAT, headers=headers)
            assert found.headers.get("access-control-allow-origin") == allowed
            assert (found.status_code == 200) == (allowed is not None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_sequences": 0},
        {"max_waiting": -1},
        {"request_timeout": 0.0},
        {"api_key": ""},
        {"metrics_prefix": "a b"},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ServerSettings("small", **wrong)


def test_a_key_is_not_printed():
    assert "s3cret" not in repr(ServerSettings("small", api_key="s3cret"))


def test_schemathesis_finds_no_server_error():
    """A few requests for every operation of the server's own document, well formed and not."""
    found = set()
    defaults = GenerationConfig(gen_length=12)
    with serving(defaults=defaults, **LIMITS) as running:
        document = json.loads(urlopen(f"{running.url}/openapi.json").read())
        for result in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = result.ok()

            @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
            @given(case=st.one_of(operation.as_strategy(), *_broken(operation)))
            def probe(case):
                response = case.call(base_url=running.url)
                assert response.status_code < 500, (case.body, response.text)
                found.add(response.status_code)

            probe()
        running.settle()
        assert running.slots == 0
    assert {200, 400} <= found <= {200, 400, 404, 405, 413}


def _broken(operation):
    if operation.method.upper() != "POST":
        return []
    return [operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)]


NUMBERS = st.one_of(
    st.integers(-2, 40), st.floats(), st.sampled_from([10**12, 10**30, -(10**18), 1e300, 1e-300])
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(POLICIES)), st.data())
def test_no_policy_option_breaks_the_engine(client, name, data):
    """Any number for any option of any policy: an answer or a 400, and never a failed engine."""
    fields = [f.name for f in dataclasses.fields(POLICIES[name]) if f.init]
    given = {f: data.draw(NUMBERS) for f in fields if data.draw(st.booleans())}
    spec = ",".join(f"{field}={value}" for field, value in given.items())
    body = {**HELLO, "policy": f"{name}:{spec}" if spec else name, "tokens_per_step": 3}
    body["order"] = data.draw(st.sampled_from(["confidence", "random", "left-to-right"]))
    assert client.post(CHAT, json=body).status_code in (200, 400), body
