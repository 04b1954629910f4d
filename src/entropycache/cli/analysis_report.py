"""The report of ``entropycache analyze``: the analysis' observations and the bench's ablations.

It stands here because only the command line may use both packages.
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
"""The number of parameters up to which observations are made in float64."""


def engines(model: str, dtype: str, device: str) -> tuple[Engine, Engine]:
    """Two engines of a model: one for observations and one for everything else.

    With ``dtype`` ``auto`` a small model is observed in float64, where drift is not hidden by
    rounding. Raises ``CheckpointError`` for a model that cannot be loaded.
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
    """Write the report to ``output``: JSON, PNGs and one HTML page.

    ``parts`` are "drift", observed on ``precise``, and "ablations", decoded on ``engine``. Raises
    ``OptionError`` for a folder that cannot be written and a config that cannot be swept.
    """
    files.make_folder(output)
    under = {"drift": one_by_one(config), "ablations": config}
    curves = ablations.points(config)  # what cannot be swept is known before anything is decoded
    results: dict[str, Any] = {"prompts": len(cases)}
    results["decoding"] = {part: asdict(under[part]) for part in parts}
    sections: list[Section] = []
    if "drift" in parts:
        numbers, observed = observe(precise, [case.prompt for case in cases], under["drift"])
        results |= numbers
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
    text = ", ".join(f"{k}={v}" for k, v in changed.items())
    return text or "window=32, threshold=0.9"


def _slug(caption: str) -> str:
    return caption.replace(" ", "_")
