"""lm_eval's task objects from names: our offline tasks and lm_eval's own, also with local data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from entropycache.errors import OptionError
from entropycache.evaluation import offline
from entropycache.evaluation.local_data import Needs, with_local_data
from entropycache.evaluation.programs import solves_mbpp

SEED = 1234
"""lm_eval's own seed for worked examples."""


@dataclass(frozen=True)
class Wanted:
    """The tasks of an evaluation, and the form of their prompts.

    Prompts are messages of a ``chat``, or plain text. ``shots`` is the number of worked examples,
    the task's own number if ``None``. ``data_dir`` is a folder with data of lm_eval's tasks.
    """

    names: Sequence[str]
    chat: bool
    shots: int | None = None
    data_dir: Path | None = None


def build(wanted: Wanted) -> dict[str, Any]:
    """Tasks and groups by name, as ``lm_eval.evaluate`` takes them; examples drawn with ``SEED``.

    Raises ``OptionError`` for an unknown name, for data or a package that is missing, and for more
    worked examples than a task has. Raises ``RecordError`` for a damaged file of data.
    """
    ours = set(offline.names())
    published = [name for name in wanted.names if name not in ours]
    if wanted.data_dir and not published:
        raise OptionError("--data-dir is for lm_eval's tasks; those named have their data here")
    # Reading lm_eval's thousands of configurations takes seconds, which offline tasks need not.
    manager = TaskManager(include_defaults=bool(published))
    built = []
    for name in wanted.names:
        if name in ours:
            built.append(ConfigurableTask(config=offline.config(name, wanted.chat)))
        else:
            built += _published(name, wanted, manager)
    loaded: dict[str, Any] = manager.load(built)
    for name, task in loaded["tasks"].items():
        _give_shots(name, task, wanted.shots)
    return loaded


def _published(name: str, wanted: Wanted, manager: Any) -> list[Any]:
    """The tasks or groups of lm_eval under ``name``: several if it is a tag."""
    index = manager.task_index
    if name not in index:
        raise OptionError(
            f"unknown task {name!r}; offline: {', '.join(offline.names())}; "
            "lm_eval's own are listed by lm_eval ls tasks"
        )
    leaves = _leaves(name, index)
    # One file serves a group whose tasks are parts of one data set.
    whole = len({(c.get("dataset_path"), c.get("dataset_name")) for c in _configs(leaves, index)})
    shared = (name,) if whole == 1 else ()
    for leaf in leaves:
        config = _mbpp(index[leaf]) if leaf == "mbpp" else None
        if wanted.data_dir:
            config = config or load_yaml(index[leaf].yaml_path)
            needs = Needs.of(config, wanted.shots)
            config = with_local_data(config, wanted.data_dir, (leaf, *shared), needs)
        if config is not None:
            index[leaf] = replace(index[leaf], yaml_path=None, cfg=dict(config))
    try:
        found = manager.load([name])
    except ImportError as error:
        said = str(error).split(". ")[0]
        raise OptionError(f"task {name} needs a package that is missing: {said}") from error
    except (OSError, datasets.exceptions.DatasetNotFoundError) as error:
        raise _no_data(name, index[leaves[0]], shared, wanted, error) from error
    except (LookupError, TypeError, ValueError) as error:
        if wanted.data_dir is None:
            raise
        raise OptionError(
            f"{name}: the files of --data-dir {wanted.data_dir} lack what it reads: {error!r}"
        ) from error
    return list(found["groups"].values())[:1] or list(found["tasks"].values())


def _leaves(name: str, index: Mapping[str, Any]) -> list[str]:
    """The names of the tasks below the name of a task, a group or a tag."""
    entry = index.get(name)
    if entry is None:
        return []
    if entry.tags and entry.cfg is None:
        return [leaf for tag in sorted(entry.tags) for leaf in _leaves(tag, index)]
    members = (entry.cfg or {}).get("task")
    if not isinstance(members, list):
        return [name]
    below = [m if isinstance(m, str) else m.get("task") or m.get("group") for m in members]
    return [leaf for member in below for leaf in _leaves(str(member), index)]


def _mbpp(entry: Any) -> Mapping[str, Any]:
    """lm_eval's configuration of MBPP, with programs run by our sandbox.

    The worked examples are problems 2, 3 and 4 of the data set, as in the paper (arXiv 2108.07732).
    """
    config = load_yaml(entry.yaml_path, resolve_func=False)
    examples = {
        "sampler": "first_n",
        "split": "prompt",
        "doc_to_target": "{{code}}\n[DONE]",
        "process_docs": lambda documents: [d for d in documents if d["task_id"] in (2, 3, 4)],
    }
    return {**config, "fewshot_config": examples, **offline.scored("pass@1", solves_mbpp)}


def _configs(leaves: Sequence[str], index: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [index[leaf].cfg or {} for leaf in leaves]


def _no_data(
    name: str, entry: Any, shared: tuple[str, ...], wanted: Wanted, error: Exception
) -> OptionError:
    config = entry.cfg or {}
    serves = Needs.of(config, wanted.shots).files("DIR", (entry.name, *shared)[-1])
    said = str(error).splitlines()[0]
    return OptionError(
        f"{name}: its data set {config.get('dataset_path')} is not to be had ({said}); "
        f"with --data-dir DIR, {serves} would serve"
    )


def _give_shots(name: str, task: Any, shots: int | None) -> None:
    """Set the number of worked examples that a task shows; refuse a number that it cannot show."""
    own = task.get_config("num_fewshot")
    if shots and own == 0:
        raise OptionError(f"{name} is a task without worked examples; leave --num-fewshot out")
    there = len(task.sampler.df) if hasattr(task, "sampler") else 0
    if (shots or 0) > there:
        raise OptionError(f"{name} has {there} worked examples, not {shots}")
    task.set_config(key="num_fewshot", value=(own or 0) if shots is None else shots)
    task.set_fewshot_seed(seed=SEED)
