"""The report of ``entropycache analyze``: observations of the analysis and ablations of the bench,
together on one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entropycache.analysis.observations import observe, one_by_one
from entropycache.bench import ablations
from entropycache.bench.comparison import Case
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine, load
from entropycache.io import results as files
from entropycache.io.environment import command, machine, versions
from entropycache.observers.html_report import Section, page

SMALL = 200_000_000
"""Parameters up to which observations are made in float64."""


def engines(model: str, dtype: str, device: str) -> tuple[Engine, Engine]:
    """The model for observations, in float64 where ``auto`` leaves the choice and it is small, and
    for everything else.
    """
    engine = load(model, dtype=dtype, device=device)
    if dtype != "auto" or engine.network.parameter_count > SMALL:
        return engine, engine
    return load(model, dtype="float64", device=device), engine


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
    files.make_folder(output)
    under = {"drift": one_by_one(config), "ablations": config}
    curves = ablations.points(config)  # what cannot be swept is known before anything is decoded
    results: dict[str, Any] = {"prompts": len(cases)}
    results["decoding"] = {part: asdict(under[part]) for part in parts}
    sections: list[Section] = []
    if "drift" in parts:
        found, observed = observe(precise, [case.prompt for case in cases], under["drift"])
        results |= found
        sections += observed
    if "ablations" in parts:
        results["ablations"] = ablations.run(engine, cases, curves)
        sections += ablations.sections(results["ablations"])
    facts = {
        "command": command(),
        "model": model,
        "prompts": len(cases),
        **{f"decoding for {part}": _rule(under[part]) for part in parts},
        **machine(),
        **versions(),
    }
    files.write_json(output / "analysis.json", {"command": command(), "model": model, **results})
    for section in sections:
        for caption, picture in section.pictures.items():
            files.write_bytes(output / f"{_slug(caption)}.png", picture)
    drawn = sum(len(section.pictures) for section in sections)
    text = page(f"Why EntropyCache works on {model}", facts, sections)
    files.write_bytes(output / "report.html", text.encode())
    print(f"wrote {output}/report.html, analysis.json and {drawn} PNGs")


def _rule(config: GenerationConfig) -> str:
    plain = GenerationConfig()
    changed = {k: v for k, v in asdict(config).items() if v != getattr(plain, k)}
    told = ", ".join(f"{k}={v}" for k, v in changed.items())
    return told or "window=32, threshold=0.9"


def _slug(caption: str) -> str:
    return caption.replace(" ", "_")
