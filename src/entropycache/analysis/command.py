"""What ``entropycache analyze`` and ``calibrate`` do once their options are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from entropycache.analysis import ablations, figures
from entropycache.analysis.calibrate import Calibration, Candidate, calibrate
from entropycache.analysis.correlation import by_age, correlate
from entropycache.analysis.drift import Transition, transitions
from entropycache.analysis.page import Section, page
from entropycache.bench import report
from entropycache.bench.matrix import Case, interleave
from entropycache.bench.shapes import parameters
from entropycache.config import GenerationConfig
from entropycache.engine import Engine, Prompt, load
from entropycache.errors import OptionError
from entropycache.machine import command, machine, versions
from entropycache.models import loading


def analyze(
    model: str,
    precise: Engine,
    engine: Engine,
    cases: Sequence[Case],
    config: GenerationConfig,
    output: Path,
    parts: Sequence[str],
) -> None:
    """Observations on ``precise``, ablations on ``engine``; JSON, PNGs and one HTML page."""
    report.make_folder(output)
    under = {"drift": one_by_one(config), "ablations": config}
    curves = ablations.points(config)  # what cannot be swept is known before anything is decoded
    results: dict[str, Any] = {"prompts": len(cases)}
    results["decoding"] = {part: asdict(under[part]) for part in parts}
    sections: list[Section] = []
    if "drift" in parts:
        found = _transitions(precise, cases, under["drift"])
        results |= {"correlation": correlate(found), "persistence": by_age(found)}
        sections += [_correlation(found, results), _persistence(results["persistence"])]
    if "ablations" in parts:
        results["ablations"] = _ablations(engine, cases, curves)
        sections += _curves(results["ablations"])
    facts = {
        "command": command(),
        "model": model,
        "prompts": len(cases),
        **{f"decoding for {part}": _rule(under[part]) for part in parts},
        **machine(),
        **versions(),
    }
    report.write_json(output / "analysis.json", {"command": command(), "model": model, **results})
    for section in sections:
        for caption, picture in section.pictures.items():
            report.write_bytes(output / f"{_slug(caption)}.png", picture)
    drawn = sum(len(section.pictures) for section in sections)
    text = page(f"Why EntropyCache works on {model}", facts, sections)
    report.write_bytes(output / "report.html", text.encode())
    print(f"wrote {output}/report.html, analysis.json and {drawn} PNGs")


def one_by_one(config: GenerationConfig) -> GenerationConfig:
    """One token a step in blocks of 32, unless the options ask for another rule: each step is then
    a point of its own. Blocks, because a sliding window would go on to the end tokens of the whole
    canvas, which are the surest, before the answer is there.
    """
    if config.ruled:
        return config
    blocks = {} if config.windowed else {"block_length": 32}
    return GenerationConfig.of(config, tokens_per_step=1, **blocks)


def run_calibration(
    engine: Engine, prompts: Sequence[Prompt], config: GenerationConfig, target: float
) -> Calibration:
    """Calibrate, printing each candidate as it is tried."""
    console = Console()

    def show(c: Candidate) -> None:
        if c.policy.startswith("entropy:tau=-1,"):
            head = "policy                          agreement   (low end)    rows   full passes"
            console.out(head, highlight=False)
        mark = "" if c.accepted else "  misses the target"
        console.out(
            f"{c.policy:<30}  {c.agreement:9.4f}   {c.agreement_low:9.4f}  {c.rows_share:6.1%}"
            f"  {c.full_passes:12.2f}{mark}",
            highlight=False,
        )

    return calibrate(engine, prompts, config, target, show)


def engines(model: str, dtype: str, device: str) -> tuple[Engine, Engine]:
    """The model for observations, in float64 where ``auto`` leaves the choice and it is small, and
    for everything else.
    """
    engine = load(model, dtype=dtype, device=device)
    if dtype != "auto" or parameters(engine) > 200_000_000:
        return engine, engine
    return load(model, dtype="float64", device=device), engine


def save_calibration(found: Calibration, model: str) -> None:
    """Write a calibration beside a model that lies in a folder."""
    print(f"saved to {found.save(loading.locate(model))}; use it as --policy calibrated")


def _transitions(
    engine: Engine, cases: Sequence[Case], config: GenerationConfig
) -> list[Transition]:
    prompts = [case.prompt for case in cases]
    found = list(track(transitions(engine, prompts, config), "observing passes", total=None))
    if len(found) < 10:
        raise OptionError(
            f"{len(found)} steps have a pass after them; give more or longer prompts to analyze"
        )
    return found


def _ablations(
    engine: Engine, cases: Sequence[Case], curves: Sequence[ablations.Point]
) -> list[dict[str, Any]]:
    running = interleave(ablations.arms(engine, curves), cases)
    rows = list(track(running, "ablations", total=len(cases)))[-1]
    return ablations.results(curves, rows)


def _correlation(found: Sequence[Transition], results: Mapping[str, Any]) -> Section:
    numbers = results["correlation"]
    rows = [
        (signal, measure.replace("_", " "), n["value"], "{} … {}".format(*n["interval_95"]))
        for signal in ("entropy", "1 - confidence")
        for measure, n in numbers[signal].items()
    ]
    text = (
        "Each point is a step of decoding without a cache: the largest entropy of the tokens it "
        "committed, and how far the value vectors of all other positions moved in the next full "
        "pass. Intervals by bootstrap over prompts."
    )
    layers = (
        "Spearman of entropy by layer, from the second (values of the first depend on a position's "
        f"own token alone): {numbers['spearman_from_second_layer']}"
    )
    picture = {"entropy against drift": figures.entropy_against_drift(found, numbers)}
    head = ("signal", "coefficient", "value", "95 % interval")
    return Section("Observation 1: entropy tells drift", (text, layers), picture, head, rows)


def _persistence(numbers: Mapping[str, Any]) -> Section:
    text = (
        "Drift of committed positions by the passes since their commit; the first is the pass in "
        "which the token itself is new. It is more than twice the drift of the prompt between the "
        f"same passes for {numbers['volatile_for']} passes: k pays as far as it covers the "
        "tokens committed in that many."
    )
    picture = {"drift by age": figures.drift_by_age(numbers)}
    keys = ("ages", "positions", "mean_drift", "prompt_drift")
    rows = zip(*(numbers[key] for key in keys), strict=True)
    shown = [
        (a, n, f"{own:.3g}", "–" if p is None else f"{p:.3g}")
        for a, n, own, p in rows
        if a <= 8 or a % 8 == 0
    ]
    head = ("passes since commit", "positions", "mean drift", "prompt's")
    return Section("Observation 2: a commit stays volatile", (text,), picture, head, shown)


def _curves(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    found = []
    for label, prefix, logarithmic in (
        ("tau (nats)", "tau", True),
        ("k (positions)", "k", False),
        ("window (positions)", "window", False),
        ("tau by signal", "signal", True),
    ):
        mine = [r for r in rows if r["curve"].split()[0] == prefix]
        if not mine:
            continue
        head = ("curve", label, "correct", "same answer", "speed-up", "full passes", "rows/token")
        body = [
            (
                *(r["curve"], f"{r['x']:g}"),
                *("–" if r["accuracy_percent"] is None else f"{r['accuracy_percent']:.0f} %",),
                f"{r['same_answer_percent']:.0f} %",
                *(r["speed_up"], r["full_passes"], r["rows_per_token"]),
            )
            for r in mine
        ]
        marked = frozenset(i for i, r in enumerate(mine) if r["default"])
        picture = {f"ablation of {prefix}": figures.curve(mine, label, logarithmic)}
        found.append(Section(f"Ablation: {label}", (), picture, head, body, marked))
    return found


def _rule(config: GenerationConfig) -> str:
    plain = GenerationConfig()
    changed = {k: v for k, v in asdict(config).items() if v != getattr(plain, k)}
    told = ", ".join(f"{k}={v}" for k, v in changed.items())
    return told or "window=32, threshold=0.9"


def _slug(caption: str) -> str:
    return caption.replace(" ", "_")
