"""The public engine: load a model, generate for one or many prompts, watch every step.

It puts tokenizer, requests and the decoding loop together, and knows no policy, strategy or model
family by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entropycache.config.generation import GenerationConfig
from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Positions
from entropycache.engine.build import make_policy_and_strategy
from entropycache.engine.loop import decode
from entropycache.engine.output import Completion, Frame
from entropycache.engine.request import Request
from entropycache.engine.runner import Runner
from entropycache.engine.scheduler import Scheduler
from entropycache.engine.scoring import Sampler
from entropycache.engine.stopping import StopCriteria
from entropycache.engine.timing import Recorder
from entropycache.errors import NonFiniteLogitsError, OptionError, PromptError
from entropycache.io.tokenizer import Prompt, Tokenizer, is_many, load_backend, make_tokenizer
from entropycache.models import loading
from entropycache.models.devices import pick_device
from entropycache.models.family import Family
from entropycache.models.registry import family_of
from entropycache.models.transformer import Transformer
from entropycache.policies.saved import saved_policy


class Engine:
    """A loaded model that decodes. One thread at a time."""

    def __init__(self, network: Transformer, family: Family, tokenizer: Tokenizer) -> None:
        self.network = network
        self.family = family
        self.tokenizer = tokenizer
        self.runner = Runner(network, family, tokenizer.mask_id)
        self.calibrated: str | None = None
        """The spec that ``policy="calibrated"`` stands for, as saved beside the model."""

    @classmethod
    def from_hf(cls, model: Any, tokenizer: PreTrainedTokenizerBase | None = None) -> Engine:
        """Adopt a loaded Hugging Face LLaDA or Dream model: its weights are shared, not copied.

        Raises ``CheckpointError`` where the architecture that its config names is not known.
        """
        config = model.config.to_dict()
        family = family_of(config, type(model).__name__)
        shape = loading.read_model_config(family, config, type(model).__name__)
        network = loading.adopt_network(family, shape, model.state_dict())
        made = make_tokenizer(tokenizer, config, family.special, network.config.vocab_size)
        return cls(network, family, made)

    def logits(self, token_ids: Sequence[int]) -> Tensor:
        """A full pass's logits ``(length, vocab_size)`` as the network returns them: Dream's are
        not yet shifted. Masks are allowed; there must be at least one id.
        """
        ids = self.tokenizer.encode_canvas(token_ids)
        room = self.network.config.max_position_embeddings
        if not 0 < len(ids) <= room:
            raise PromptError(f"logits takes 1 to {room} token ids, not {len(ids)}")
        return self.runner.logits(ids)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        config: GenerationConfig | None = None,
        *,
        batch_size: int = 8,
        on_step: Callable[[Frame], None] | None = None,
        **options: Any,
    ) -> Completion | list[Completion]:
        """Decode one prompt, or a list of prompts (a list of completions then), with
        ``GenerationConfig``'s options.

        A prompt is text, token ids, or a chat (a list of messages); the empty list is an empty
        prompt of token ids. Up to ``batch_size`` prompts are decoded together;
        each answer is what it would be alone. ``on_step`` sees every step of every request. A
        single prompt whose network returns NaN or infinite logits raises ``NonFiniteLogitsError``;
        in a list its completion carries the error and the others go on.
        """
        settings = (config or GenerationConfig()).merge(**options)
        _check_batch_size(batch_size)
        if not is_many(prompts):
            (only,) = self.run([(prompts, settings)], on_step=on_step)  # type: ignore[list-item]
            if only[1].error is not None:
                raise NonFiniteLogitsError(only[1].error)
            return only[1]
        found = dict(self.run([(p, settings) for p in prompts], batch_size, on_step))  # type: ignore[misc]
        return [found[i] for i in range(len(prompts))]

    def run(
        self,
        jobs: Sequence[tuple[Prompt, GenerationConfig]],
        batch_size: int = 8,
        on_step: Callable[[Frame], None] | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        """Decode prompts with settings of their own; yields (index, completion) as they finish.

        Prompts are checked before anything is decoded. A finished request makes room for the next
        at once.
        """
        _check_batch_size(batch_size)
        requests = [self.request(i, p, config) for i, (p, config) in enumerate(jobs)]
        scheduler = Scheduler(self.runner, batch_size, requests=requests)
        while scheduler.admit():
            # One decoding loop serves all, unless every request of the batch is aborted at once.
            with closing(scheduler.steps()) as steps:
                for step in steps:
                    if on_step is not None:
                        on_step(Frame.of(step, requests[step.request].sequence))
                    yield from ((r.id, r.complete()) for r in scheduler.retire())
                    scheduler.admit()
            yield from ((r.id, r.complete()) for r in scheduler.retire())

    def stream(
        self, prompt: Prompt, config: GenerationConfig | None = None, **options: Any
    ) -> Iterator[Frame]:
        """Decode one prompt and yield every step with the canvas after it."""
        request = self.request(0, prompt, (config or GenerationConfig()).merge(**options))
        for step in decode([request], self.runner):
            yield Frame.of(step, request.sequence)
        if request.error is not None:
            raise request.error

    def infill(
        self,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        *,
        on_step: Callable[[Frame], None] | None = None,
        **options: Any,
    ) -> Completion:
        """Fill in the masks that a text (the mask token's own text) or token ids hold; every other
        token stays. The completion's ``token_ids`` and ``text`` are the whole, filled in, and
        ``commits`` count from its first position.

        Windows and blocks count from the first mask, and nothing stops early. Raises
        ``OptionError`` for what has no meaning here: ``gen_length``, ``stop``, ``max_new_tokens``.
        """
        given = {**(vars(config) if config else {}), **options}
        for name in ("gen_length", "stop", "max_new_tokens"):
            idle = getattr(GenerationConfig, name)
            if given.get(name, idle) not in (idle, None, []):
                raise OptionError(f"infilling fills every mask given; {name} has no meaning there")
        ids = self.tokenizer.encode_masked(prompt)
        start = int((ids == self.tokenizer.mask_id).argmax())
        self._check_length(start, len(ids) - start)
        region = {"gen_length": len(ids) - start, "early_stop": False}
        settings = (config or GenerationConfig()).merge(**(options | region))
        request = self._request(0, ids, start, settings, self._stopping(settings))
        for step in decode([request], self.runner):
            if on_step is not None:
                on_step(Frame.of(step, request.sequence))
        if request.error is not None:
            raise request.error
        return request.complete_infilled(self.tokenizer.decode(request.sequence.canvas))

    @contextmanager
    def recording(self, recorder: Recorder) -> Iterator[None]:
        """Record where the time of decoding goes while this is open."""
        before, self.runner.recorder = self.runner.recorder, recorder
        try:
            yield
        finally:
            self.runner.recorder = before

    def request(
        self, number: int, prompt: Prompt, config: GenerationConfig, suffix: Sequence[int] = ()
    ) -> Request:
        """A request for the decoding loop, checked and not yet started; ``number`` names it in
        steps.

        With token ids of a ``suffix`` the masks lie between the two; all of them are filled, and
        the answer is the tokens they become. Raises ``PromptError`` or ``OptionError`` where it
        cannot be decoded.
        """
        ids, after = self.tokenizer.encode(prompt), self.tokenizer.encode_canvas(suffix)
        if config.stop and self.tokenizer.backend is None:
            raise OptionError("stop strings need a tokenizer, and this checkpoint has none")
        self._check_length(len(ids) + len(after), config.gen_length)
        masks = np.full(config.gen_length, self.tokenizer.mask_id, np.int64)
        canvas = np.concatenate((ids, masks, after))
        if not len(after):
            return self._request(number, canvas, len(ids), config, self._stopping(config))
        filled = StopCriteria(self.tokenizer.endless(), limit=len(masks), early=False)
        return self._request(number, canvas, len(ids), config, filled)

    def _check_length(self, prompt: int, masks: int) -> None:
        if prompt + masks > self.network.config.max_position_embeddings:
            raise PromptError(
                f"prompt and gen_length make {prompt + masks} positions, {prompt} + {masks}; "
                f"this model has {self.network.config.max_position_embeddings}"
            )

    def _stopping(self, config: GenerationConfig) -> StopCriteria:
        return StopCriteria(
            self.tokenizer, config.stop, config.max_new_tokens, early=config.early_stop
        )

    def _request(
        self,
        number: int,
        canvas: Positions,
        start: int,
        config: GenerationConfig,
        stopping: StopCriteria,
    ) -> Request:
        policy, strategy = make_policy_and_strategy(config, self.family, self.calibrated)
        sequence = Canvas(canvas, self.tokenizer.mask_id, start)
        return Request(number, sequence, policy, strategy, Sampler(config.sampling), stopping)


def load(model: str = loading.EMBEDDED, *, dtype: str = "auto", device: str = "auto") -> Engine:
    """Load ``tiny`` (the embedded model), a local folder or a hub id.

    ``dtype``: ``auto`` (as saved, but float32 on a processor that does not gain from bfloat16),
    ``bfloat16``, ``float32`` or ``float64``; ``device``: ``auto`` (CUDA where there is one), or
    what torch accepts. Raises ``CheckpointError`` with the file and the reason where it cannot.
    """
    target = pick_device(device)
    checkpoint = loading.read_config(loading.locate(model))
    precision = loading.pick_dtype(dtype, checkpoint.config, target)
    network = loading.load_network(checkpoint, precision, target)
    special = checkpoint.family.special
    backend = load_backend(checkpoint.folder, special)
    tokenizer = make_tokenizer(backend, checkpoint.config, special, network.config.vocab_size)
    engine = Engine(network, checkpoint.family, tokenizer)
    engine.calibrated = saved_policy(checkpoint.folder)
    return engine


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise OptionError(f"batch_size must be 1 or more, not {batch_size}")
