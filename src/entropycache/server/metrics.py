"""Prometheus metrics of one server: vLLM's names behind our prefix, and series of the cache.

Every series carries ``model_name``. The module knows counts and times, not requests.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from entropycache.core.steps import Step
from entropycache.engine.output import Completion
from entropycache.server.jobs import Job

# Bucket bounds in seconds, close to vLLM's, so that its dashboards fit.
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20)
_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1)
_WHOLE = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)


class Metrics:
    """All series of a server, in a registry of its own; may be used from any thread.

    ``prefix`` starts the names of the series, and ``model`` is their label ``model_name``.
    """

    def __init__(self, prefix: str, model: str) -> None:
        self.registry = CollectorRegistry()
        self._prefix, self._model = prefix, model
        self._running = self._gauge("num_requests_running", "Sequences being decoded.")
        self._waiting = self._gauge("num_requests_waiting", "Sequences waiting for their turn.")
        self._prompt = self._counter("prompt_tokens", "Tokens of prompts.")
        self._generated = self._counter("generation_tokens", "Tokens of answers.")
        self._steps = self._counter("diffusion_num_denoising_steps", "Steps, of every sequence.")
        self._canvas = self._counter(
            "diffusion_num_canvas_positions", "Positions of the canvas, summed over steps."
        )
        self._committed = self._counter("diffusion_num_committed_tokens", "Tokens committed.")
        self._recomputed = self._counter(
            "diffusion_num_recomputed_positions", "Canvas positions computed, the mean over layers."
        )
        self._reused = self._counter(
            "diffusion_num_reused_positions", "Canvas positions read from the cache."
        )
        self._full = Counter(
            f"{prefix}:diffusion_full_passes",
            "Steps that computed every position, by the policy's reason.",
            ["model_name", "reason"],
            registry=self.registry,
        )
        self._success = Counter(
            f"{prefix}:request_success",
            "Sequences ended, by how they ended.",
            ["model_name", "finished_reason"],
            registry=self.registry,
        )
        # At 0 from the start: rates over a series that appears later miss its first count.
        for reason in ("stop", "length", "abort", "error"):
            self._success.labels(model, reason)
        self._first = self._histogram(
            "time_to_first_token_seconds", "From arrival to the first final token.", _FIRST
        )
        self._per_token = self._histogram(
            "time_per_output_token_seconds", "Mean time between an answer's tokens.", _TOKEN
        )
        self._whole = self._histogram(
            "e2e_request_latency_seconds", "From arrival to the end.", _WHOLE
        )

    def text(self) -> bytes:
        """All series in Prometheus' text format."""
        return generate_latest(self.registry)

    def occupancy(self, running: int, waiting: int) -> None:
        """Set the numbers of sequences that run and that wait."""
        self._running.set(running)
        self._waiting.set(waiting)

    def step(self, step: Step, length: int) -> None:
        """Count a step of a sequence whose canvas has ``length`` positions."""
        self._steps.inc()
        self._canvas.inc(length)
        self._committed.inc(len(step.commit.positions))
        self._recomputed.inc(step.work)
        self._reused.inc(length - step.work)
        if step.full:
            self._full.labels(self._model, step.plan.reason.value).inc()

    def ended(self, job: Job, completion: Completion) -> None:
        """Count a sequence that ended well, with its tokens and its times in seconds."""
        now = time.perf_counter()
        first = job.first or now
        self._success.labels(self._model, completion.finish_reason).inc()
        self._prompt.inc(completion.prompt_tokens)
        self._generated.inc(completion.answer_tokens)
        self._first.observe(first - job.arrived)
        self._whole.observe(now - job.arrived)
        if completion.answer_tokens > 1:
            self._per_token.observe((now - first) / (completion.answer_tokens - 1))

    def aborted(self) -> None:
        """Count a sequence whose client went away or waited too long."""
        self._success.labels(self._model, "abort").inc()

    def failed(self) -> None:
        """Count a sequence that could not be finished."""
        self._success.labels(self._model, "error").inc()

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"{self._prefix}:{name}", text, ["model_name"], registry=self.registry)
        return gauge.labels(self._model)

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"{self._prefix}:{name}", text, ["model_name"], registry=self.registry)
        return counter.labels(self._model)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(
            f"{self._prefix}:{name}", text, ["model_name"], registry=self.registry, buckets=buckets
        )
        return histogram.labels(self._model)
