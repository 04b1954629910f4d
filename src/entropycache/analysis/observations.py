"""Both observations of EntropyCache (arXiv 2603.18489) on a model: numbers, and sections of the
report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import track

from entropycache.analysis import figures
from entropycache.analysis.correlation import by_age, correlate
from entropycache.analysis.drift import Transition, transitions
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.errors import OptionError
from entropycache.io.tokenizer import Prompt
from entropycache.observers.html_report import Section


def observe(
    engine: Engine, prompts: Sequence[Prompt], config: GenerationConfig
) -> tuple[dict[str, Any], list[Section]]:
    """Entropy against drift, and drift by age: the numbers, and the sections of the report.

    Raises ``OptionError`` if fewer than ten steps have a pass after them, and what ``transitions``
    raises.
    """
    changes = _transitions(engine, prompts, config)
    results = {"correlation": correlate(changes), "persistence": by_age(changes)}
    return results, [_correlation(changes, results), _persistence(results["persistence"])]


def one_by_one(config: GenerationConfig) -> GenerationConfig:
    """The options with one token a step in blocks of 32, unless they ask for another commit rule.

    Each token committed is then a point of its own.
    """
    if config.ruled:
        return config
    # Blocks, because end tokens are the surest: a sliding window would commit those of the whole
    # canvas before the answer is there.
    blocks = {} if config.windowed else {"block_length": 32}
    return config.merge(tokens_per_step=1, **blocks)


def _transitions(
    engine: Engine, prompts: Sequence[Prompt], config: GenerationConfig
) -> list[Transition]:
    changes = list(track(transitions(engine, prompts, config), "observing passes", total=None))
    if len(changes) < 10:
        raise OptionError(
            f"an analysis needs at least 10 steps with a pass after them, not {len(changes)}: give "
            "more or longer prompts"
        )
    return changes


def _correlation(changes: Sequence[Transition], results: Mapping[str, Any]) -> Section:
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
    picture = {"entropy against drift": figures.entropy_against_drift(changes, numbers)}
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
