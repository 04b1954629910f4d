"""The public engine: load a model, generate for one or many prompts, watch every step.

It joins tokenizer, requests and the decoding loop, and knows no policy, strategy or model by name.
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
    """A loaded model that decodes. It must be used by one thread at a time."""

    def __init__(self, network: Transformer, family: Family, tokenizer: Tokenizer) -> None:
        self.network = network
        self.family = family
        self.tokenizer = tokenizer
        self.runner = Runner(network, family, tokenizer.mask_id)
        self.calibrated: str | None = None
        """The policy spec saved beside the model, which ``policy="calibrated"`` stands for."""

    @classmethod
    def from_hf(cls, model: Any, tokenizer: PreTrainedTokenizerBase | None = None) -> Engine:
        """Adopt a loaded Hugging Face LLaDA or Dream model: its weights are shared, not copied.

        Raises ``CheckpointError`` for an unknown architecture and for a missing weight.
        """
        config = model.config.to_dict()
        family = family_of(config, type(model).__name__)
        shape = loading.read_model_config(family, config, type(model).__name__)
        network = loading.adopt_network(family, shape, model.state_dict())
        generation = getattr(model, "generation_config", None)
        configs = [config, generation.to_dict() if generation is not None else {}]
        made = make_tokenizer(tokenizer, configs, family.special, network.config.vocab_size)
        return cls(network, family, made)

    def logits(self, token_ids: Sequence[int]) -> Tensor:
        """Logits ``(length, vocab_size)`` of a full pass, as the network returns them.

        Masks are allowed. Dream's are not shifted: row i - 1 predicts position i. Raises
        ``PromptError`` for no ids, too many, or one outside the vocabulary.
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
        """Decode one prompt to a completion, or a list of prompts to a list of completions.

        A prompt is text, token ids (the empty list: no token), or a chat (a list of messages).
        ``options`` are those of ``GenerationConfig``, over ``config``. Up to ``batch_size`` prompts
        are decoded together; each answer is the same as alone. ``on_step`` sees every step.
        Raises ``OptionError`` or ``PromptError`` before anything is decoded. For NaN or infinite
        logits one prompt raises ``NonFiniteLogitsError``; in a list its completion has the error.
        """
        settings = (config or GenerationConfig()).merge(**options)
        _check_batch_size(batch_size)
        if not is_many(prompts):
            ((_, done),) = self.run([(prompts, settings)], on_step=on_step)  # type: ignore[list-item]
            if done.error is not None:
                raise NonFiniteLogitsError(done.error)
            return done
        by_index = dict(self.run([(p, settings) for p in prompts], batch_size, on_step))  # type: ignore[misc]
        return [by_index[i] for i in range(len(prompts))]

    def run(
        self,
        jobs: Sequence[tuple[Prompt, GenerationConfig]],
        batch_size: int = 8,
        on_step: Callable[[Frame], None] | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        """Decode prompts with settings of their own; yields (index, completion) as they finish.

        A finished prompt makes room for the next at once. Raises ``OptionError`` or ``PromptError``
        before anything is decoded.
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
        """Decode one prompt and yield every step with the canvas after it.

        Raises ``OptionError``, ``PromptError`` and, after the last step, ``NonFiniteLogitsError``.
        """
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
        """Fill in the masks of a text, which holds the mask token's own text, or of token ids.

        Every other token stays. The completion's ``token_ids`` and ``text`` are the whole canvas,
        and ``commits`` count from its first position. Windows and blocks count from the first mask,
        and nothing stops early. Raises ``OptionError`` for ``gen_length``, ``stop`` and
        ``max_new_tokens``, which have no meaning here, ``PromptError`` for a prompt without masks,
        and ``NonFiniteLogitsError``.
        """
        given = {**(vars(config) if config else {}), **options}
        for name in ("gen_length", "stop", "max_new_tokens"):
            if given.get(name) not in (None, [], getattr(GenerationConfig, name)):
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
        """A context in which ``recorder`` counts the time of decoding by part."""
        before, self.runner.recorder = self.runner.recorder, recorder
        try:
            yield
        finally:
            self.runner.recorder = before

    def request(
        self, number: int, prompt: Prompt, config: GenerationConfig, suffix: Sequence[int] = ()
    ) -> Request:
        """A request for the decoding loop, checked and not yet started; ``number`` is its id.

        With token ids of a ``suffix``, the masks lie between prompt and suffix; all of them are
        filled, and the answer is the tokens they become. Raises ``PromptError`` or ``OptionError``
        for what cannot be decoded.
        """
        ids, after = self.tokenizer.encode(prompt), self.tokenizer.encode_canvas(suffix)
        if config.stop and self.tokenizer.backend is None:
            raise OptionError("stop strings need a tokenizer, and this checkpoint has none")
        self._check_length(len(ids) + len(after), config.gen_length)
        masks = np.full(config.gen_length, self.tokenizer.mask_id, np.int64)
        canvas = np.concatenate((ids, masks, after))
        if not len(after):
            return self._request(number, canvas, len(ids), config, self._stopping(config))
        # An end token among the filled masks ends nothing: the suffix still follows.
        between = StopCriteria(self.tokenizer.endless(), limit=len(masks), early=False)
        return self._request(number, canvas, len(ids), config, between)

    def _check_length(self, prompt: int, masks: int) -> None:
        if prompt + masks > self.network.config.max_position_embeddings:
            raise PromptError(
                f"prompt and gen_length make {prompt + masks} positions, {prompt} + {masks}; "
                f"this model has {self.network.config.max_position_embeddings}"
            )

    def _stopping(self, config: GenerationConfig) -> StopCriteria:
        limit, early = config.max_new_tokens, config.early_stop
        return StopCriteria(self.tokenizer, config.stop, limit, early)

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

    ``dtype`` is ``auto`` (as saved, but float32 on a processor that does not gain from bfloat16),
    ``bfloat16``, ``float32`` or ``float64``. ``device`` is ``auto`` (CUDA if there is one) or any
    device that torch accepts. Raises ``CheckpointError`` with the file and the reason, and
    ``OptionError`` for an unknown dtype or device.
    """
    target = pick_device(device)
    checkpoint = loading.read_config(loading.locate(model))
    precision = loading.pick_dtype(dtype, checkpoint.config, target)
    network = loading.load_network(checkpoint, precision, target)
    special = checkpoint.family.special
    backend = load_backend(checkpoint.folder, special)
    configs = [checkpoint.config, checkpoint.generation]
    tokenizer = make_tokenizer(backend, configs, special, network.config.vocab_size)
    engine = Engine(network, checkpoint.family, tokenizer)
    engine.calibrated = saved_policy(checkpoint.folder)
    return engine


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise OptionError(f"batch_size must be 1 or more, not {batch_size}")
