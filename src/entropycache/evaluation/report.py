"""The report of an evaluation as JSON values: totals of every task, and samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from entropycache.config.generation import GenerationConfig
from entropycache.engine.build import with_policy_defaults
from entropycache.evaluation.costs import Answer, Likelihood
from entropycache.models.family import Family
from entropycache.policies import make_policy

_KEPT = (
    *("text", "error", "finish_reason", "forwards", "full_passes", "rows_computed"),
    *("prompt_tokens", "answer_tokens", "seconds"),
)
Results = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """The answers and likelihoods of all ranks, a list for each rank, of a model of ``family``."""

    answers: Sequence[Sequence[Answer]]
    scores: Sequence[Sequence[Likelihood]]
    family: Family


def tasks(results: Results, work: Work) -> dict[str, Any]:
    """Metrics and costs of every task, and metrics of every group, by name.

    ``results`` is the value of ``lm_eval.evaluate``.
    """
    summary: dict[str, Any] = {}
    for name, values in results["results"].items():
        summary[name] = {"metrics": _metrics(values), "samples": values.get("sample_len")}
        shots = results["n-shot"].get(name)
        if name in results["configs"]:  # a group's costs are those of its tasks
            summary[name] |= {"num_fewshot": shots, **_cost(name, work)}
    return summary


def samples(results: Results, work: Work) -> dict[str, list[dict[str, Any]]]:
    """The documents of each task in order: text, target, metrics by filter, and cost."""
    given: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for answer in (answer for rank in work.answers for answer in rank):
        given[answer.task, answer.doc].append(answer)
    by_task: dict[str, list[dict[str, Any]]] = {}
    for task, logged in results.get("samples", {}).items():
        documents: dict[int, dict[str, Any]] = {}
        for sample in logged:  # lm_eval logs a document once for each filter
            entry = documents.setdefault(sample["doc_id"], _sample(sample, task, given))
            entry["metrics"] |= {
                _name(metric, sample["filter"]): sample[metric] for metric in sample["metrics"]
            }
        by_task[task] = [documents[doc] for doc in sorted(documents)]
    return by_task


def resolved(config: GenerationConfig, family: Family) -> dict[str, Any]:
    """Every decoding option as it acts on a model of this ``family``.

    The policy's own options and the defaults of window and commit rule are included.
    """
    policy = make_policy(config.policy, family.prediction_rows)
    names: list[str] = [f.name for f in fields(policy) if f.init] if is_dataclass(policy) else []
    own = {"policy_options": {name: getattr(policy, name) for name in names}}
    return asdict(with_policy_defaults(config, policy, family)) | own


def _sample(
    sample: Mapping[str, Any], task: str, given: Mapping[tuple[str, int], list[Answer]]
) -> dict[str, Any]:
    entry = {"doc": sample["doc_id"], "target": sample["target"], "metrics": {}}
    generated = given.get((task, sample["doc_id"]))
    if not generated:
        return entry | {"likelihoods": [list(r[0]) if r else [] for r in sample["resps"]]}
    several = [{k: getattr(a.completion, k) for k in _KEPT} for a in generated]
    for values, answer in zip(several, generated, strict=True):
        values |= {"wall_seconds": answer.wall, "seed": answer.config.seed}
    return entry | (several[0] if len(several) == 1 else {"answers": several})


def _metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics by name, ``metric (filter)`` where a task has several filters."""
    found = {}
    for key, value in values.items():
        metric, comma, chosen = key.partition(",")
        if not comma or metric.endswith("_stderr"):
            continue
        error = values.get(f"{metric}_stderr,{chosen}")
        known = isinstance(error, float)
        found[_name(metric, chosen)] = {"value": value, "stderr": error if known else None}
    return found


def _name(metric: str, chosen: str) -> str:
    return metric if chosen == "none" else f"{metric} ({chosen})"


def _cost(name: str, work: Work) -> dict[str, Any]:
    """Totals of one task, its wall time in seconds.

    Ranks run at the same time: the wall time is that of the slowest rank.
    """
    own = [[answer for answer in rank if answer.task == name] for rank in work.answers]
    done = [answer for rank in own for answer in rank]
    scored = [[score for score in rank if score.task == name] for rank in work.scores]
    passes = sum(score.passes for rank in scored for score in rank)
    walls = [[item.wall for item in rank] for rank in own]
    walls = [w + [item.wall for item in s] for w, s in zip(walls, scored, strict=True)]
    wall = max(map(sum, walls))
    cost: dict[str, Any] = {"wall_seconds": wall}
    if passes:
        cost["likelihood_passes"] = passes
    if not done:
        return cost
    tokens = sum(answer.completion.answer_tokens for answer in done)
    canvas = sum(answer.config.gen_length for answer in done)
    count, completions = len(done), [answer.completion for answer in done]
    return cost | {
        "decoding": resolved(done[0].config, work.family),
        "answer_tokens": tokens,
        "canvas_tokens": canvas,
        "tokens_per_second": tokens / wall if wall else None,
        "canvas_tokens_per_second": canvas / wall if wall else None,
        "forwards": sum(c.forwards for c in completions),
        "full_passes": sum(c.full_passes for c in completions),
        "rows_computed": sum(c.rows_computed for c in completions),
        "forwards_per_sample": sum(c.forwards for c in completions) / count,
        "full_passes_per_sample": sum(c.full_passes for c in completions) / count,
        "failed": sum(c.error is not None for c in completions),
    }
