"""``entropycache serve`` as a process: it starts, answers, drains at SIGTERM and exits with 0."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from entropycache.cli import app
from entropycache.errors import OptionError

SLOW = {"policy": "none", "tokens_per_step": 1, "early_stop": False, "gen_length": 24}
PROMPTS = ["1 + 1 =", "Alice has", "x", "2 * 3 ="]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url: str, body: dict) -> dict:
    data = json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def start(*arguments: str) -> tuple[subprocess.Popen, str]:
    """A server process that is ready, and where it listens."""
    port = free_port()
    command = [sys.executable, "-m", "entropycache", "serve", "--port", str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--dtype", "float32", *arguments], env=environment, stderr=subprocess.PIPE
    )
    for _ in range(600):
        assert process.poll() is None, process.stderr.read()
        try:
            urlopen(f"http://127.0.0.1:{port}/ready")
            return process, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_sigterm_under_load_finishes_what_was_accepted_and_exits_with_0():
    process, url = start("--max-sequences", "2")
    alone = [post(f"{url}/v1/completions", {"prompt": p, **SLOW})["choices"] for p in PROMPTS]
    found: dict[int, object] = {}

    def client(i: int) -> None:
        found[i] = post(f"{url}/v1/completions", {"prompt": PROMPTS[i % 4], **SLOW})["choices"]

    clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in clients:
        thread.start()
    while waiting(url) < 6:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    refused = []
    while not refused:
        try:
            post(f"{url}/v1/completions", {"prompt": "late", "max_tokens": 1, "gen_length": 2})
        except HTTPError as error:
            refused.append((error.code, json.loads(error.read())["error"]["code"]))
    for thread in clients:
        thread.join()
    assert refused == [(503, "shutting_down")]
    assert [found[i] for i in range(8)] == [alone[i % 4] for i in range(8)]
    assert process.wait(30) == 0
    process.stderr.close()


def waiting(url: str) -> float:
    lines = urlopen(f"{url}/metrics").read().decode().splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith("entropycache:num_requests_w"))


def test_options_of_the_command_are_the_defaults_of_requests_and_sigint_ends_it_too():
    process, url = start(
        *("--gen-length", "6", "--policy", "none", "--served-name", "mine", "--api-key", "k"),
        *("--metrics-prefix", "vllm"),
    )
    with pytest.raises(HTTPError, match="401"):
        post(f"{url}/v1/completions", {"prompt": "x"})
    headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
    body = json.dumps({"prompt": "x", "model": "mine", "early_stop": False}).encode()
    with urlopen(Request(f"{url}/v1/completions", body, headers)) as response:
        assert json.loads(response.read())["model"] == "mine"
    names = urlopen(f"{url}/metrics").read().decode()
    assert 'vllm:diffusion_num_committed_tokens_total{model_name="mine"} 6.0' in names
    assert 'reason="every"' in names
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stderr.close()


def test_without_the_extra_the_command_says_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "fastapi" else find(name)
    )
    found = CliRunner().invoke(app, ["serve"])
    assert isinstance(found.exception, OptionError)
    assert str(found.exception) == "serving needs fastapi; pip install 'entropycache[serve]'"


def test_a_wrong_option_is_refused_before_the_model_is_loaded():
    found = CliRunner().invoke(app, ["serve", "--max-sequences", "0", "--model", "/no/such"])
    assert str(found.exception) == "max_sequences must be 1 or more, not 0"


def test_help_loads_neither_torch_nor_the_server():
    code = (
        "import sys; from entropycache.cli import app\n"
        "assert not {'torch', 'fastapi', 'uvicorn', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
