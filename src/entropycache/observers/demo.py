"""The demonstration: real problems solved in the terminal by plain decoding, then by several tokens
a step and early stop, then by the same with a cache policy; and the cost of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text as Line

from entropycache.config.generation import PLAIN, GenerationConfig
from entropycache.core.sequence import Sequence as Canvas
from entropycache.engine.engine import Engine
from entropycache.engine.output import Frame
from entropycache.engine.stopping import StopCriteria
from entropycache.io.problems import HeldOut, held_out

PROBLEMS = (("aiw", 0), ("leg_counting", 1), ("products", 1))
GEN_LENGTH = 128
"""Masks to fill: enough for each answer, and plain decoding of all three takes half a minute."""
REDRAW_SECONDS = 0.08
FLASH_SECONDS = 0.15


@dataclass
class Run:
    """One problem decoded one way: what it cost, without the time the drawing took."""

    problem: HeldOut
    title: str
    text: str = ""
    solved: bool = False
    seconds: float = 0.0
    tokens: int = 0
    forwards: int = 0
    full_passes: int = 0
    rows: float = 0


@dataclass
class Totals:
    """All problems of one way of decoding."""

    title: str
    runs: list[Run] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Tokens before the end token over the time of decoding."""
        return sum(r.tokens for r in self.runs) / max(1e-9, sum(r.seconds for r in self.runs))


def run_demo(engine: Engine, policy: str) -> None:
    """Decode each problem plainly (one token a step, every pass full), by the same rules as
    ``policy`` but without a cache, and with ``policy``; close with a table.
    """
    console = Console()
    wide = Console(width=console.width if console.is_terminal else 100)
    cached = GenerationConfig(policy=policy, gen_length=GEN_LENGTH)
    ways = [
        (Totals("plain decoding"), PLAIN.merge(gen_length=GEN_LENGTH)),
        (Totals("same rules, no cache"), cached.merge(policy="none")),
        (Totals(policy.partition(":")[0]), cached),
    ]
    list(engine.stream("warm-up", GenerationConfig(policy=policy, gen_length=32)))
    for task, index in PROBLEMS:
        problem = held_out(task)[index]
        console.print(f"\n[bold]{problem.task}[/bold]  {problem.question}", highlight=False)
        for totals, config in ways:
            run = _solve(engine, problem, totals.title, config, console)
            totals.runs.append(run)
            verdict = "correct" if run.solved else f"wrong, the answer is {problem.answer}"
            answer = " | ".join(run.text.splitlines())
            console.print(
                f"{run.title}: {run.seconds:.2f} s, {run.forwards} passes: {answer} ({verdict})",
                highlight=False,
                markup=False,
            )
    wide.print(_table([totals for totals, _ in ways]))
    wide.print(_factors(*(totals.tokens_per_second for totals, _ in ways)), highlight=False)


def _solve(
    engine: Engine, problem: HeldOut, title: str, config: GenerationConfig, console: Console
) -> Run:
    run = Run(problem, title)
    frames = engine.stream(problem.chat, config)
    if console.is_terminal:
        screen = _Screen(engine, run, plain=config.policy == "none")
        with Live(console=console, auto_refresh=False, transient=True) as live:
            for frame in _timed(frames, run):
                screen.show(frame, live)
    else:
        *_, frame = _timed(frames, run)
    stopping, canvas = (
        StopCriteria(engine.tokenizer),
        Canvas(frame.canvas, engine.tokenizer.mask_id, frame.start),
    )
    run.text, run.tokens = stopping.finish(canvas)[0], len(stopping.answer(canvas))
    run.solved = problem.solved_by(run.text)
    return run


def _timed(frames: Iterator[Frame], run: Run) -> Iterator[Frame]:
    """The frames, counting passes and rows, and the time that decoding alone takes."""
    while True:
        began = time.perf_counter()
        frame = next(frames, None)
        run.seconds += time.perf_counter() - began
        if frame is None:
            return
        run.forwards += 1
        run.full_passes += frame.step.full
        run.rows += frame.step.work
        yield frame


class _Screen:
    """The live picture of one canvas: tokens coloured by entropy, recomputed positions underlaid,
    full passes framed.
    """

    def __init__(self, engine: Engine, run: Run, plain: bool) -> None:
        self._engine = engine
        self._run = run
        self._entropy: dict[int, float] = {}
        self._drawn = 0.0
        # A plain decoder's passes are all full: only a cached run's stand out.
        self._flashes = not plain

    def show(self, frame: Frame, live: Live) -> None:
        """Draw a frame, unless the last one was drawn a moment ago; a full pass of a cached run
        flashes.
        """
        committed = frame.step.commit.positions.tolist()
        self._entropy |= dict(zip(committed, frame.step.entropies.tolist(), strict=True))
        flash = frame.step.full and self._flashes
        now = time.perf_counter()
        if now - self._drawn < REDRAW_SECONDS and not flash:
            return
        self._drawn = now
        live.update(self._panel(frame), refresh=True)
        if flash:
            time.sleep(FLASH_SECONDS)

    def _panel(self, frame: Frame) -> Panel:
        step, run = frame.step, self._run
        computed = set(step.rows.tolist())
        canvas = Line()
        for position in range(frame.start, len(frame.canvas)):
            token = int(frame.canvas[position])
            under = " on grey23" if position in computed else ""
            if token == self._engine.tokenizer.mask_id:
                canvas.append("·", f"grey50{under}")
            elif token in self._engine.tokenizer.end_ids:
                canvas.append("▪", f"grey39{under}")
            else:
                shown = self._engine.tokenizer.token(token).replace("\n", "⏎")
                canvas.append(shown, f"{_colour(self._entropy[position])}{under}")
        prompt = sum(1 for position in computed if position < frame.start)
        numbers = Line(
            f"pass {run.forwards}  {step.plan.reason}  {len(computed)} of {len(frame.canvas)} rows "
            f"computed ({prompt} of {frame.start} in the prompt)  "
            f"full passes {run.full_passes}  {run.seconds:.2f} s"
        )
        key = Line(
            "green: certain … red: 2 nats or more   "
            "shaded: recomputed in this pass   plain: from the cache",
            "dim",
        )
        return Panel(
            Group(canvas, Line(), numbers, key),
            title=f"{run.title}{'  FULL PASS' if step.full else ''}",
            border_style="bold red" if step.full else "blue",
        )


def _colour(entropy: float) -> str:
    share = min(1.0, entropy / 2)
    return f"rgb({int(90 + 165 * share)},{int(220 - 150 * share)},90)"


def _factors(plain: float, no_cache: float, cached: float) -> str:
    """Whose the gain is, in words."""
    rules, cache = no_cache / max(1e-9, plain), cached / max(1e-9, no_cache)
    return (
        f"{rules:.1f}x comes from several tokens a step and early stop, which need no cache, and "
        f"{cache:.1f}x from the cache. Prompts and answers here are short; behind worked examples "
        "the cache gives more."
    )


def _table(all_totals: list[Totals]) -> Table:
    table = Table(title="What it cost")
    for column in (*("", "correct", "tokens/s", "speed-up", "passes", "full", "rows", "seconds"),):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    base = all_totals[0].tokens_per_second
    for totals in all_totals:
        runs = totals.runs
        table.add_row(
            totals.title,
            f"{sum(r.solved for r in runs)} of {len(runs)}",
            f"{totals.tokens_per_second:.0f}",
            f"{totals.tokens_per_second / base:.1f}x" if base else "-",
            str(sum(r.forwards for r in runs)),
            str(sum(r.full_passes for r in runs)),
            f"{sum(r.rows for r in runs):.0f}",
            f"{sum(r.seconds for r in runs):.2f}",
        )
    return table
