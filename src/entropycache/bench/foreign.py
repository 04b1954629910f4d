"""Other people's code in the same table: a generate function of theirs, called with the same
prompts and settings.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from entropycache.config.generation import GenerationConfig
from entropycache.core.sequence import Sequence as Canvas
from entropycache.engine.engine import Engine
from entropycache.engine.output import Completion
from entropycache.engine.stopping import StopCriteria
from entropycache.errors import OptionError
from entropycache.io.tokenizer import Prompt
from entropycache.io.user_code import imported

Foreign = Callable[..., Sequence[int]]
"""``generate(prompt_ids, gen_length=…, …)``: the prompt's token ids, and the options of
``GenerationConfig`` by name as far as the function takes them (all where it takes ``**options``);
returns the token ids of the generated region, or of prompt and region.
"""


def load_foreign(spec: str) -> Foreign:
    """The function of a spec ``module:function``; modules are found as Python finds them, and in
    the working folder.
    """
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise OptionError(f"--against takes MODULE:FUNCTION, not {spec!r}")
    found: Any = imported(module, name, f"--against {spec}")
    if not callable(found):
        raise OptionError(f"--against {spec}: {module} has no function {name}")
    function: Foreign = found
    return function


def decode_foreign(
    engine: Engine, prompt: Prompt, config: GenerationConfig, function: Foreign
) -> Completion:
    """What a foreign function makes of a prompt, timed and read like an answer of ours. Its passes
    and rows cannot be seen and stay 0.
    """
    ids = engine.tokenizer.encode(prompt)
    options = accepted(function, config)
    began = time.perf_counter()
    try:
        returned: Any = function(ids.tolist(), **options)
        found = np.asarray(getattr(returned, "cpu", lambda: returned)(), dtype=np.int64).reshape(-1)
    except Exception as error:  # whatever their code raises
        raise OptionError(f"{_name(function)}: {type(error).__name__}: {error}") from error
    seconds = time.perf_counter() - began
    if len(found) == len(ids) + config.gen_length:
        found = found[len(ids) :]
    if len(found) != config.gen_length:
        raise OptionError(
            f"{_name(function)} returned {len(found)} token ids; gen_length is {config.gen_length}"
        )
    canvas = Canvas(np.concatenate((ids, found)), engine.tokenizer.mask_id, len(ids))
    stopping = StopCriteria(engine.tokenizer, config.stop, config.max_new_tokens)
    text, reason = stopping.finish(canvas)
    tokens = len(stopping.answer(canvas))
    return Completion(
        token_ids=found.tolist(),
        text=text,
        finish_reason=reason,
        seconds=seconds,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        answer_tokens=tokens,
        prompt_tokens=len(ids),
    )


def accepted(function: Foreign, config: GenerationConfig) -> dict[str, Any]:
    """The decoding options in force that the function takes by name; the rest it decides itself.
    What is not set is left to its own defaults, and our policies are not among them.
    """
    values = {k: v for k, v in vars(config.with_defaults()).items() if k != "policy"}
    every = {name: value for name, value in values.items() if value is not None}
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return every
    return {p.name: every[p.name] for p in parameters if p.name in every}


def _name(function: Foreign) -> str:
    return str(getattr(function, "__name__", function))
