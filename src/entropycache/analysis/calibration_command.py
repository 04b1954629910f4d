"""The work of ``entropycache calibrate`` once its options are read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from entropycache.analysis.calibrate import Calibration, Setting, calibrate
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.io.tokenizer import Prompt
from entropycache.models import loading


def run_calibration(
    engine: Engine, prompts: Sequence[Prompt], config: GenerationConfig, target: float
) -> Calibration:
    """Calibrate, and print each setting as it is tried. Raises what ``calibrate`` raises."""
    console = Console()

    def show(c: Setting) -> None:
        if c.policy.startswith("entropy:tau=-1,"):  # the first that is tried
            head = "policy                          agreement   (low end)    rows   full passes"
            console.out(head, highlight=False)
        mark = "" if c.accepted else "  misses the target"
        console.out(
            f"{c.policy:<30}  {c.agreement:9.4f}   {c.agreement_low:9.4f}  {c.rows_share:6.1%}"
            f"  {c.full_passes:12.2f}{mark}",
            highlight=False,
        )

    return calibrate(engine, prompts, config, target, show)


def save_calibration(calibration: Calibration, model: str) -> None:
    """Write a calibration into the folder of a model, and print the path.

    Raises ``CheckpointError`` for a model that cannot be found, and ``OptionError`` if the file
    cannot be written.
    """
    print(f"saved to {calibration.save(loading.locate(model))}; use it as --policy calibrated")
