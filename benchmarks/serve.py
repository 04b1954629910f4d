"""The server under load: throughput and latency at several concurrencies, and a soak. Run: ``python
benchmarks/serve.py`` (about four minutes on two cores) and ``python benchmarks/serve.py --soak
120``.

The server of the benchmark is a process of its own. EntropyCache stands beside plain decoding, one
token a pass with every pass full, and beside the same commit rule without a cache, so that the gain
of the cache alone can be read. All fill the same canvas for the same prompts, and speed is tokens
of answers over wall time. Rounds of the three alternate, so that a noisy machine favours none.

The soak keeps 64 clients of mixed lengths and policies busy. In a first run all of them stay, in a
second one half of them vanish in the middle of a stream. Every answer is compared with that of the
same request alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common
import torch
from load import Reply, ask, requests, soak

from entropycache import GenerationConfig, load
from entropycache.io.problems import DEFAULT_TASKS

CONCURRENCIES = (1, 4, 16)
GEN_LENGTH = 64
KINDS: dict[str, dict[str, Any]] = {
    "plain": {
        "policy": "none",
        "block_length": 32,
        "tokens_per_step": 1,
        "early_stop": False,
    },
    "several tokens, no cache": {"policy": "none", "window": 32, "threshold": 0.9},
    "entropy": {"policy": "entropy", "window": 32, "threshold": 0.9},
}


@contextmanager
def server_process(dtype: str) -> Iterator[int]:
    """Run a server in a process of its own; the context's value is its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "entropycache", "serve", "--port", str(port)]
    process = subprocess.Popen([*command, "--dtype", dtype], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        assert process.wait(60) == 0


@dataclass
class Row:
    """The replies to one way of decoding at one concurrency, over ``wall`` seconds."""

    replies: list[Reply] = field(default_factory=list)
    wall: float = 0.0

    def numbers(self) -> dict[str, float]:
        """Throughput, and latency in seconds."""
        seconds = sorted(r.seconds for r in self.replies)
        tokens = sum(r.tokens for r in self.replies)
        return {
            "requests": len(self.replies),
            "requests_per_second": round(len(self.replies) / self.wall, 2),
            "tokens_per_second": round(tokens / self.wall, 1),
            "latency_median": round(statistics.median(seconds), 3),
            "latency_p95": round(seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))], 3),
            "first_text_median": round(statistics.median(r.first for r in self.replies), 3),
            "tokens_per_answer": round(tokens / len(self.replies), 1),
        }


async def batch(port: int, bodies: list[dict[str, Any]], concurrency: int) -> list[Reply]:
    """The replies to all requests, ``concurrency`` of them at a time, as they end."""
    left = iter(bodies)
    replies = []

    async def client() -> None:
        for body in left:
            replies.append(await ask(port, body))

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return replies


def measure(port: int, rounds: int) -> dict[str, dict[str, Row]]:
    """The results of every way of decoding at every concurrency, over ``rounds`` rounds."""
    rows = {name: {str(c): Row() for c in CONCURRENCIES} for name in KINDS}
    problems = common.problems(DEFAULT_TASKS, 48)
    prompts = itertools.cycle(load("tiny").tokenizer.encode(p.chat).tolist() for p in problems)
    for kind in KINDS.values():  # a first request of each that is not counted
        asyncio.run(ask(port, {"prompt": next(prompts), "gen_length": GEN_LENGTH, **kind}))
    for _, concurrency in itertools.product(range(rounds), CONCURRENCIES):
        chosen = [next(prompts) for _ in range(max(2, concurrency))]
        for name, kind in KINDS.items():
            bodies = [{"prompt": p, "gen_length": GEN_LENGTH, **kind} for p in chosen]
            row, started = rows[name][str(concurrency)], time.perf_counter()
            row.replies += asyncio.run(batch(port, bodies, concurrency))
            row.wall += time.perf_counter() - started
            print(f"{concurrency:3} {name}: {row.numbers()}", file=sys.stderr)
    assert all(r.status == 200 for rs in rows.values() for row in rs.values() for r in row.replies)
    return rows


def company(count: int = 32) -> dict[str, str]:
    """``same of count`` for each dtype: answers that are, token for token, the same alone and in a
    batch of 16.
    """
    config = GenerationConfig(gen_length=GEN_LENGTH, **KINDS["entropy"])
    prompts = [p.chat for p in common.problems(DEFAULT_TASKS, count)]
    shares = {}
    for dtype in ("float32", "bfloat16"):
        engine = load("tiny", dtype=dtype, device="cpu")
        together = engine.generate(prompts, config, batch_size=16)
        alone = [engine.generate(prompt, config) for prompt in prompts]
        same = sum(a.token_ids == t.token_ids for a, t in zip(alone, together, strict=True))
        shares[dtype] = f"{same} of {count}"
    return shares


def resident_mb() -> float:
    """The resident memory of this process in MB, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * 4096 / 2**20, 1)


def run_soak(seconds: float) -> dict[str, Any]:
    """The counts of both soaks, of ``seconds`` each, with the slots and memory that are left."""
    # The server runs in this process, so that its store and its memory can be looked at.
    import uvicorn

    from entropycache.server.app import create_app
    from entropycache.server.settings import ServerSettings

    torch.set_num_threads(2)
    engine = load("tiny", dtype="float32", device="cpu")
    app = create_app(engine, ServerSettings("tiny"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    results: dict[str, Any] = {}
    for name, vanishing in (("all stay", False), ("half vanish", True)):
        asyncio.run(soak(port, requests(72), 64, min(15, seconds), vanishing))  # memory settles
        before = resident_mb()
        counts: dict[str, Any] = asyncio.run(soak(port, requests(72), 64, seconds, vanishing))
        scheduler = app.state.service.engine_thread
        while scheduler.held:
            time.sleep(0.05)
        counts["slots_left"] = len(engine.runner.store)
        counts["memory_mb"] = [before, resident_mb()]
        results[name] = counts
        print(name, counts, file=sys.stderr)
    server.should_exit = True
    thread.join()
    return results


def main() -> None:
    """Read the options, measure, and save the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--soak", type=float, default=0, help="seconds of each soak")
    options = parser.parse_args()
    if options.soak:
        runs = run_soak(options.soak)
        common.save("serve_soak", clients=64, seconds=options.soak, runs=runs)
        return
    with server_process(options.dtype) as port:
        rows = measure(port, options.rounds)
    speed = "tokens_per_second"
    numbers = {name: {c: row.numbers() for c, row in rs.items()} for name, rs in rows.items()}
    common.save(
        "serve",
        dtype=options.dtype,
        gen_length=GEN_LENGTH,
        tasks=DEFAULT_TASKS,
        decoding=KINDS,
        by_concurrency=numbers,
        same_alone_and_among_16=company(),
        throughput_ratio={
            f"entropy over {name}": {
                c: round(numbers["entropy"][c][speed] / numbers[name][c][speed], 2)
                for c in numbers[name]
            }
            for name in numbers
            if name != "entropy"
        },
    )


if __name__ == "__main__":
    main()
