"""Foreign code in the same table: a generate function from outside, called with the same prompts
and settings.
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
    """The function that a spec ``module:function`` names.

    Modules are found as Python finds them, and in the working folder. Raises ``OptionError`` for a
    spec of another form, a module that cannot be imported, and a name that is no function.
    """
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise OptionError(f"--against takes MODULE:FUNCTION, not {spec!r}")
    member: Any = imported(module, name, f"--against {spec}")
    if not callable(member):
        raise OptionError(f"--against {spec}: {module} has no function {name}")
    function: Foreign = member
    return function


def decode_foreign(
    engine: Engine, prompt: Prompt, config: GenerationConfig, function: Foreign
) -> Completion:
    """The completion of a prompt by a foreign function, timed and read like an answer of ours.

    Its passes and rows cannot be seen and stay 0. Raises ``OptionError`` for whatever the function
    raises, and for a result of another length; ``PromptError`` as ``Tokenizer.encode``.
    """
    ids = engine.tokenizer.encode(prompt)
    options = accepted(function, config)
    started = time.perf_counter()
    try:
        returned: Any = function(ids.tolist(), **options)
        # A list, an array or a tensor on any device, of one sequence or of a batch of one.
        region = np.asarray(getattr(returned, "cpu", lambda: returned)(), np.int64).reshape(-1)
    except Exception as error:  # whatever their code raises
        raise OptionError(f"{_name(function)}: {type(error).__name__}: {error}") from error
    seconds = time.perf_counter() - started
    if len(region) == len(ids) + config.gen_length:
        region = region[len(ids) :]
    if len(region) != config.gen_length:
        raise OptionError(
            f"{_name(function)} returned {len(region)} token ids; gen_length is {config.gen_length}"
        )
    canvas = Canvas(np.concatenate((ids, region)), engine.tokenizer.mask_id, len(ids))
    stopping = StopCriteria(engine.tokenizer, config.stop, config.max_new_tokens)
    text, reason = stopping.finish(canvas)
    tokens = len(stopping.answer(canvas))
    return Completion(
        token_ids=region.tolist(),
        text=text,
        finish_reason=reason,
        seconds=seconds,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        answer_tokens=tokens,
        prompt_tokens=len(ids),
    )


def accepted(function: Foreign, config: GenerationConfig) -> dict[str, Any]:
    """The decoding options in force that a function takes by name; all, if it takes ``**options``.

    Options that are not set are left to its own defaults. ``policy`` is never passed on, as it
    names policies of ours.
    """
    values = {k: v for k, v in vars(config.with_defaults()).items() if k != "policy"}
    every = {name: value for name, value in values.items() if value is not None}
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return every
    return {p.name: every[p.name] for p in parameters if p.name in every}


def _name(function: Foreign) -> str:
    return str(getattr(function, "__name__", function))
