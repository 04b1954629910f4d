"""Clients of the server: one that streams a completion and times it, and a crowd whose answers are
compared with those of the same requests alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import common

from entropycache.io.problems import DEFAULT_TASKS

POLICIES = (
    *("none", "entropy", "entropy:tau=0.3,k=16", "fast-dual", "fast-prefix", "d2", "elastic"),
    *("dkv-decode", "dllm"),
)
LENGTHS = (8, 24, 40, 64)
RULES: tuple[dict[str, Any], ...] = (
    {"threshold": 0.9},
    {"tokens_per_step": 2},
    {"factor": 0.8},
    {"temperature": 1.0, "seed": 7},
)


@dataclass
class Reply:
    """The outcome of one request: HTTP status, text, number of tokens, and error message.

    ``first`` is the time to the first text and ``seconds`` that to the end, both in seconds.
    """

    status: int = 0
    text: str = ""
    tokens: int = 0
    first: float = 0.0
    seconds: float = 0.0
    error: str = ""


async def ask(port: int, body: dict[str, Any], leave_after: int | None = None) -> Reply:
    """Stream one completion over a connection of its own, and return the reply.

    With ``leave_after`` the client breaks the connection off after so many events.
    """
    reply, started = Reply(), time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = body | {"stream": True, "stream_options": {"include_usage": True}}
    data = json.dumps(body).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + data)
    await writer.drain()
    try:
        reply.status = int((await reader.readline()).split()[1])
        events = 0
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                _take(reply, json.loads(line[6:]), started)
                events += 1
            if leave_after is not None and events >= leave_after:
                break
    finally:
        # A client that vanishes sends no goodbye.
        writer.transport.abort() if leave_after is not None else writer.close()
    reply.seconds = time.perf_counter() - started
    return reply


def _take(reply: Reply, event: dict[str, Any], started: float) -> None:
    """Add one event of the stream to the reply."""
    if "error" in event:
        reply.error = event["error"]["message"]
    for choice in event.get("choices", ()):
        reply.first = reply.first or time.perf_counter() - started
        reply.text += choice["text"]
    if event.get("usage"):
        reply.tokens = event["usage"]["completion_tokens"]


def requests(count: int, lengths: tuple[int, ...] = LENGTHS) -> list[dict[str, Any]]:
    """Bodies of ``count`` requests of mixed lengths, policies and rules, the same at every call."""
    draw = random.Random(5)
    problems = common.problems(DEFAULT_TASKS, 30)
    return [
        {
            "prompt": draw.choice(problems).question[: draw.choice((20, 60, 120))],
            "gen_length": draw.choice(lengths),
            "policy": POLICIES[i % len(POLICIES)],
            **RULES[i % len(RULES)],
        }
        for i in range(count)
    ]


async def soak(
    port: int, bodies: list[dict[str, Any]], clients: int, seconds: float, vanishing: bool
) -> dict[str, int]:
    """Keep ``clients`` busy for ``seconds``, and count their replies by kind.

    An answer is ``equal`` or ``different`` to that of the same request alone. With ``vanishing``
    every second client leaves in the middle of each stream.
    """
    alone = [(await ask(port, body)).text for body in bodies]
    counts: Counter[str] = Counter()
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        draw = random.Random(number)
        leaves = vanishing and number % 2 == 0
        while time.perf_counter() < end:
            index = draw.randrange(len(bodies))
            reply = await ask(port, bodies[index], draw.randrange(1, 4) if leaves else None)
            if reply.status == 429:  # the queue is full: wait a little, as a good client does
                counts["429"] += 1
                await asyncio.sleep(0.2)
            elif reply.status != 200 or reply.error:
                counts["errors"] += 1
            elif leaves:
                counts["left"] += 1
            else:
                counts["equal" if reply.text == alone[index] else "different"] += 1

    await asyncio.gather(*(client(number) for number in range(clients)))
    return {name: counts[name] for name in ("equal", "different", "errors", "429", "left")}
