"""What the server's tests share: a small engine with the embedded tokenizer, a server over it in a
thread of this process, and the official client.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import openai
import torch
import uvicorn

from entropycache import Engine, GenerationConfig, load
from entropycache.io.tokenizer import Tokenizer
from entropycache.models.config import ModelConfig
from entropycache.models.llada import LLADA
from entropycache.models.random_init import random_network
from entropycache.server.app import create_app
from entropycache.server.service import Service
from entropycache.server.settings import ServerSettings

SHAPE = ModelConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=16,
    intermediate_size=64,
    vocab_size=2048,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    max_position_embeddings=384,
)


@functools.cache
def text() -> Tokenizer:
    """The embedded model's text side."""
    return load("tiny", device="cpu").tokenizer


def small_engine(shape: ModelConfig = SHAPE) -> Engine:
    """Random weights, sure enough of themselves that steps commit several tokens; float32. Each
    call gives another engine with the same weights.
    """
    network = random_network(shape, seed=3).requires_grad_(False)
    network.embedding *= 40
    network.head *= 45
    for layer in network.typed_layers():
        for weight in (*layer.qkv.weights, layer.out, *layer.gate_up.weights, layer.down):
            weight *= 8
    return Engine(network, LLADA, text())


@dataclass
class Running:
    """A server that listens, and what is behind it."""

    url: str
    service: Service
    engine: Engine

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client; it retries nothing."""
        given = {"api_key": "unused", "max_retries": 0, "timeout": 60, **options}
        return openai.OpenAI(base_url=f"{self.url}/v1", **given)

    def settle(self) -> None:
        """Wait until nothing runs or waits."""
        for _ in range(2000):
            if not self.service.engine_thread.held:
                return
            time.sleep(0.005)
        raise AssertionError(f"{self.service.engine_thread.held} sequences are still held")

    @property
    def slots(self) -> int:
        """Slots of the store in use."""
        return len(self.engine.runner.store)


@contextmanager
def serving(engine: Engine | None = None, **settings: Any) -> Iterator[Running]:
    """A server in a thread of this process, on a port of its own."""
    engine = engine or small_engine()
    settings.setdefault("defaults", GenerationConfig(gen_length=48))
    app = create_app(engine, ServerSettings("small", **settings))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", app.state.service, engine)
    finally:
        server.should_exit = True
        thread.join()


def one_thread() -> None:
    """Let the engine's thread use one core, as everywhere in the tests."""
    torch.set_num_threads(1)
