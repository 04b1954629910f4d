"""Figures as PNGs, drawn without a display."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of so many inches with one panel and a faint grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    return figure, axes


def png(figure: Figure, dpi: int = 110) -> bytes:
    """A figure as a PNG."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    return buffer.getvalue()
