"""Pictures of a trace: a PNG of all steps, and a self-contained HTML page to step through.

Both show the same: a row of the picture is a step, a column a position; colour is the entropy at
which a token was committed; what a step recomputed is told apart from what it read from the cache,
and full passes stand out.
"""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropycache.errors import OptionError
from entropycache.observers.trace import Trace, TracedRequest

CACHED, RECOMPUTED, MASKED, MASKED_RECOMPUTED, COMMITTED = 0.86, 0.62, 0.97, 0.80, -1.0


def draw_png(trace: Trace, path: Path) -> None:
    """One panel a request, steps downwards, positions to the right."""
    from matplotlib.figure import Figure

    count = len(trace.requests)
    steps = sum(len(request.steps) for request in trace.requests.values())
    figure = Figure(figsize=(13, min(60.0, 1.6 * count + 0.07 * steps + 1.5)), layout="constrained")
    heights = [max(8, len(request.steps)) for request in trace.requests.values()]
    panels = figure.subplots(count, 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (number, request) in zip(panels, trace.requests.items(), strict=True):
        grey, entropy, full = grids(request)
        panel.imshow(grey, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        image = panel.imshow(
            entropy, cmap="plasma", vmin=0, vmax=2, aspect="auto", interpolation="nearest"
        )
        for row in np.flatnonzero(full):
            panel.plot(-2.5, row, marker=">", color="crimson", clip_on=False, markersize=5)
        panel.axvline(request.start - 0.5, color="steelblue", linewidth=0.8)
        rows = sum(len(s.get("rows", request.canvas)) for s in request.steps)
        panel.set_title(
            f"request {number}: {len(request.steps)} steps, {int(full.sum())} full passes "
            f"(red marks), {rows} rows computed",
            fontsize=9,
            loc="left",
        )
        panel.set_ylabel("step")
        figure.colorbar(image, ax=panel, label="entropy when committed (nats)", shrink=0.9)
    panels[-1].set_xlabel(
        "position (left of the blue line: the prompt); "
        "dark grey: recomputed, light grey: from the cache"
    )
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error


def grids(
    request: TracedRequest,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Grey levels and entropies (NaN where nothing is committed), both ``(steps, length)``, and
    which steps are full.
    """
    shape = (len(request.steps), len(request.canvas))
    grey, entropy = np.full(shape, CACHED), np.full(shape, np.nan)
    masked = np.ones(shape[1], bool)
    masked[: request.start] = False
    for i, step in enumerate(request.steps):
        computed = np.zeros(shape[1], bool)
        computed[step.get("rows", slice(None))] = True
        grey[i] = np.where(masked, MASKED, CACHED)
        grey[i, computed] = np.where(masked[computed], MASKED_RECOMPUTED, RECOMPUTED)
        masked[step["positions"]] = False
        entropy[i, step["positions"]] = step["entropy"]
    return grey, entropy, np.array([step["full"] for step in request.steps], bool)


def write_html(trace: Trace, path: Path, title: str) -> None:
    """A page with everything inside: the canvas of each step, a slider, and the numbers of the
    step.
    """
    page = (files("entropycache") / "observers" / "trace.html").read_text(encoding="utf-8")
    data: list[dict[str, Any]] = [
        {
            "name": str(name),
            "length": len(r.canvas),
            "start": r.start,
            "prompt": r.prompt,
            "steps": r.steps,
        }
        for name, r in trace.requests.items()
    ]
    # No "<" inside the script element that carries the data: nothing can end or open one there.
    packed = json.dumps(
        {"model": trace.header.get("model"), "requests": data}, ensure_ascii=False
    ).replace("<", "\\u003c")
    text = page.replace("{{title}}", html.escape(title)).replace("{{data}}", packed)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error
