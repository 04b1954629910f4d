"""Translation of an lm_eval task's generation arguments into decoding options.

An argument that cannot be honoured is refused. The module knows names and values, not models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError

KNOWN = ("until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k")
"""Generation arguments of a task that are honoured."""
OWN = ("model", "batch_size", "dtype", "device", "mc_num")
"""Arguments of the model that are not decoding options."""
_ALIASES = {"max_new_tokens": "max_gen_toks", "max_tokens": "max_gen_toks", "stop": "until"}


def request_config(
    task_arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> GenerationConfig:
    """Settings of one request: its task's generation arguments, then the run's options over them.

    ``until`` becomes the engine's stop strings and ``max_gen_toks`` its ``gen_length``. Without
    ``do_sample`` the temperature decides whether tokens are sampled. ``do_sample=false`` takes the
    most probable token at any temperature. An option of the run replaces the task's value and the
    alternatives of that option.

    Raises ``OptionError`` for an argument that is not supported or a value that is not accepted;
    the message shows the task's own arguments.
    """
    try:
        return GenerationConfig(**_translated(task_arguments)).merge(**options)
    except OptionError as error:
        message = f"{error} (the task's own arguments: {dict(task_arguments)})"
        raise OptionError(message) from error


def _translated(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        name = _ALIASES.get(name, name)
        if name not in KNOWN:
            raise OptionError(
                f"generation argument {name!r} is not supported; known: {', '.join(KNOWN)}"
            )
        if value is not None:
            given[name] = value
    sampled = given.pop("do_sample", None)
    if not isinstance(sampled, bool) and sampled is not None:
        raise OptionError(f"generation argument do_sample must be true or false, not {sampled!r}")
    if sampled is False:
        given["temperature"] = 0.0
    elif sampled:
        given.setdefault("temperature", 1.0)
    if "until" in given:
        given["stop"] = given.pop("until")
    if "max_gen_toks" in given:
        given["gen_length"] = given.pop("max_gen_toks")
    if not given.get("temperature"):
        # Greedy tasks often carry sampling values that lm_eval's models ignore. Here they would
        # still act: Dream's sampler ranks by the truncated distribution even at temperature 0.
        given = {name: v for name, v in given.items() if name not in ("top_p", "top_k")}
    return given


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Decoding options, checked, with the policy's spec in its usual form.

    A ``;`` in the spec becomes a comma, see ``EntropyCacheLM``. Raises ``OptionError`` for an
    unknown name, listing the known ones, and for a value that is not accepted.
    """
    known = [item.name for item in fields(GenerationConfig)]
    for name in options:
        if name not in known:
            raise OptionError(f"unknown option {name!r}; known: {', '.join((*OWN, *known))}")
    given = dict(options)
    if isinstance(given.get("policy"), str):
        given["policy"] = given["policy"].replace(";", ",")
    GenerationConfig().merge(**given)
    return given


def positive(name: str, value: int | str) -> int:
    """The value of ``name`` as a whole number above 0; lm_eval may give it as text.

    Raises ``OptionError`` for anything else.
    """
    if str(value).isdecimal() and int(value) > 0:
        return int(value)
    raise OptionError(f"{name} must be a whole number above 0, not {value!r}")
