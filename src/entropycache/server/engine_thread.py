"""The thread that owns the engine and decodes all requests of the server together.

Sequences join and leave the running batch between any two steps. The rest of the server uses
thread-safe calls, and hears of steps and ends through each job's own ``send``. The module knows
neither HTTP nor text.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from typing import Literal

from entropycache.core.steps import Step
from entropycache.engine.engine import Engine
from entropycache.engine.output import Completion
from entropycache.engine.scheduler import Scheduler
from entropycache.server.errors import ApiError, draining, failed, overloaded
from entropycache.server.jobs import Job
from entropycache.server.metrics import Metrics
from entropycache.server.settings import ServerSettings

log = logging.getLogger("entropycache.server")


class EngineThread:
    """Runs jobs on one thread.

    ``reserve`` and then ``submit`` admit jobs, ``cancel`` takes them out, ``drain`` refuses new
    ones. These and the properties may be used from any thread. Everything else, the scheduler and
    the jobs themselves included, belongs to the engine's thread alone.
    """

    def __init__(self, engine: Engine, settings: ServerSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._scheduler = Scheduler(engine.runner, settings.max_sequences, settings.max_positions)
        self._jobs: dict[int, Job] = {}
        self._inbox: list[tuple[Literal["add", "drop"], Job]] = []
        self._suspects: list[Job] = []
        self._changed = threading.Condition()
        self._held = 0
        self._draining = self._stopping = False
        self._mean_seconds = 1.0
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for its end; jobs that still run or wait fail."""
        with self._changed:
            self._draining = self._stopping = True
            self._changed.notify()
        self._thread.join()

    def drain(self) -> None:
        """Refuse new sequences from now on; accepted ones are still decoded."""
        # A plain flag: a signal handler calls this, which must not wait for a lock.
        self._draining = True

    @property
    def draining(self) -> bool:
        """True while new sequences are refused."""
        return self._draining

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    @property
    def held(self) -> int:
        """The number of sequences accepted and not yet ended."""
        return self._held

    def reserve(self, count: int) -> None:
        """Make room for ``count`` sequences.

        Raises ``ApiError``: 503 while draining, 429 where the queue is full. The 429 carries the
        seconds after which a place is likely to be free, from 1 to 60.
        """
        with self._changed:
            if self._draining:
                raise draining()
            if self._held + count > self._settings.capacity:
                # Those ahead take their turns max_sequences at a time, each as long as recent ones.
                ahead = max(0, self._held - self._settings.max_sequences)
                wait = self._mean_seconds * (1 + ahead / self._settings.max_sequences)
                raise overloaded(min(60, max(1, round(wait))))
            self._held += count

    def release(self, count: int) -> None:
        """Give back the room of ``count`` sequences."""
        with self._changed:
            self._held -= count

    def submit(self, jobs: list[Job]) -> None:
        """Let jobs wait for their turn; their room must have been reserved.

        Raises ``ApiError`` (503) if the thread has been told to end.
        """
        with self._changed:
            if self._stopping:
                raise draining()
            self._inbox += [("add", job) for job in jobs]
            self._changed.notify()

    def cancel(self, jobs: list[Job]) -> None:
        """Take jobs out after the current step; those that have ended are left alone."""
        # Through the inbox: a slot must not be freed in the middle of a pass.
        with self._changed:
            self._inbox += [("drop", job) for job in jobs]
            self._changed.notify()

    def _work(self) -> None:
        while self._wait():
            try:
                self._decode()
            except Exception:  # whatever one request made the engine raise: the others must go on
                log.exception("decoding failed")
                self._suspect()
        # Jobs submitted before the end was announced must hear of it too, or their clients wait.
        self._take()
        for job in list(self._jobs.values()):
            self._fail(job, draining())
        self._metrics.occupancy(0, 0)

    def _wait(self) -> bool:
        """Sleep until there is something to decode; false once the thread is to end."""
        with self._changed:
            while not (self._stopping or self._inbox or self._suspects or self._busy):
                self._changed.wait()
            return not self._stopping

    @property
    def _busy(self) -> bool:
        return bool(self._scheduler.running or self._scheduler.waiting)

    def _suspect(self) -> None:
        """Restart the running jobs one by one after an exception, to find the one that caused it.

        An exception does not say which sequence of the batch it comes from. The first of
        ``_suspects`` runs alone. A job that fails alone is the cause and ends with an error; the
        others end with the answers they would have had.
        """
        running = [self._jobs[request.id] for request in self._scheduler.running]
        for job in running:
            self._scheduler.cancel(job.request)
            if len(running) == 1:
                self._fail(job, failed("decoding failed; the server's log says why"))
            else:
                job.restart()
                self._suspects.append(job)

    def _decode(self) -> None:
        self._tend()
        # Closed also when the loop is left early, so that every slot is freed.
        with closing(self._scheduler.steps()) as steps:
            for step in steps:
                self._note(step)
                self._tend()
                if self._stopping:
                    return
        self._tend()

    def _note(self, step: Step) -> None:
        job = self._jobs[step.request]
        self._metrics.step(step, len(job.request.sequence))
        job.note(step)

    def _tend(self) -> None:
        """Take new jobs and cancellations, end finished jobs, and admit those that fit.

        Called between two steps.
        """
        if self._inbox:  # read without the lock: a job that comes in just now is taken next time
            self._take()
        for request in self._scheduler.retire():
            self._end(self._jobs[request.id], request.complete())
        if not self._suspects:  # nobody joins a suspect, or the next failure would prove nothing
            self._scheduler.admit()
        elif not self._scheduler.running:
            self._scheduler.start(self._suspects[0].request)
        aside = max(0, len(self._suspects) - 1)
        self._metrics.occupancy(len(self._scheduler.running), self._scheduler.waiting + aside)

    def _take(self) -> None:
        with self._changed:
            taken, self._inbox = self._inbox, []
        for what, job in taken:
            if what == "add":
                self._jobs[job.number] = job
                self._scheduler.add(job.request)
            elif job.number in self._jobs:
                self._forget(job)
                self._metrics.aborted()

    def _end(self, job: Job, completion: Completion) -> None:
        if completion.error is not None:
            self._fail(job, failed(completion.error, "non_finite_logits"))
            return
        self._forget(job)
        seconds = time.perf_counter() - job.request.started  # of decoding, without the wait
        self._mean_seconds += 0.2 * (seconds - self._mean_seconds)
        self._metrics.ended(job, completion)
        job.end(completion)

    def _fail(self, job: Job, error: ApiError) -> None:
        self._forget(job)
        self._metrics.failed()
        job.fail(error)

    def _forget(self, job: Job) -> None:
        """Remove a job, running, waiting or suspected, and free its slot and its room."""
        self._scheduler.cancel(job.request)
        self._suspects = [other for other in self._suspects if other is not job]
        del self._jobs[job.number]
        self.release(1)
