"""The model that lm-evaluation-harness calls: generation by the engine, likelihoods by Monte Carlo.

It knows requests and answers. It knows nothing of tasks, tables or files, except for its journal.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from torch import Tensor

from entropycache.config.generation import GenerationConfig
from entropycache.engine.build import resolve_spec
from entropycache.engine.engine import Engine, load
from entropycache.engine.output import Completion
from entropycache.errors import OptionError, PromptError
from entropycache.evaluation import likelihood, ranks
from entropycache.evaluation.arguments import checked_options, positive, request_config
from entropycache.evaluation.costs import Answer, Likelihood
from entropycache.evaluation.journal import Journal, digest
from entropycache.evaluation.prompts import Templated, pair, template, tokens

Job = tuple[list[int], GenerationConfig]
"""A prompt's token ids and its settings."""


@register_model("entropycache")
class EntropyCacheLM(LM):  # type: ignore[misc]
    """An engine as lm_eval's model: ``simple_evaluate(model=EntropyCacheLM("tiny"))``.

    ``model`` is an engine, or a name, folder or hub id that ``load`` accepts. ``options`` are those
    of ``GenerationConfig``; they win over a task's generation arguments. In a string of lm_eval's
    ``model_args``, where commas separate the arguments, write a policy's options with ``;``:
    ``model=tiny,policy=entropy:tau=1.0;k=64``. A dict takes the spec as it is. A likelihood is
    estimated from ``mc_num`` draws.

    Three attributes may be set before an evaluation: ``journal`` keeps finished results and returns
    those of a killed run, ``expect`` is called with the number of requests handed over, and
    ``watch`` with the number just finished. ``answers`` and ``likelihoods`` hold the costs.

    Raises ``OptionError`` for an option that is unknown or not accepted, and ``CheckpointError``
    for a model that cannot be loaded.
    """

    def __init__(
        self,
        model: str | Engine = "tiny",
        *,
        batch_size: int | str = 8,
        dtype: str = "auto",
        device: str = "auto",
        mc_num: int = 128,
        **options: Any,
    ) -> None:
        super().__init__()
        self.options = checked_options(options)
        self.batch_size = positive("batch_size", batch_size)
        self.mc_num = positive("mc_num", mc_num)
        self.ranks = ranks.join()
        if isinstance(model, Engine):
            if (dtype, device) != ("auto", "auto"):
                raise OptionError("an engine has its dtype and device; give them to load()")
            self.engine, self.name = model, "engine"
        else:
            device = ranks.own_device(device)
            self.engine, self.name = load(str(model), dtype=dtype, device=device), str(model)
        if policy := self.options.get("policy"):
            # Reports and journal keys name the numbers that act, not a name such as "calibrated",
            # which another calibration changes.
            self.options["policy"] = resolve_spec(policy, self.engine.calibrated)
        self.journal: Journal | None = None
        self.expect: Callable[[int], None] = lambda requests: None
        self.watch: Callable[[int], None] = lambda finished: None
        self.answers: list[Answer] = []
        self.likelihoods: list[Likelihood] = []
        weights = self.engine.network.embedding
        self._rank, self._world_size = self.ranks.rank, self.ranks.size
        self._device = weights.device
        self._dtype = str(weights.dtype).removeprefix("torch.")

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The elements of all ranks' tensors, ``(ranks * n,)``, in the order of the ranks."""
        return self.ranks.all_gather(tensor)

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """The objects of all ranks on rank ``dst``, and ``None`` on the other ranks."""
        return self.ranks.gather_object(obj, dst)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.ranks.barrier()

    @property
    def tokenizer_name(self) -> str:
        """The name under which lm_eval caches requests made with this model's chat template."""
        return self.name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The source of the model's chat template, for lm_eval's records."""
        tokenizer = self.engine.tokenizer.backend
        return str(tokenizer.chat_template) if chat_template and tokenizer else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Templated:
        """A chat as text; without ``add_generation_prompt`` its last message is left open.

        Raises ``PromptError`` if the model has no chat template.
        """
        return template(self.engine.tokenizer, chat_history, add_generation_prompt)

    def get_model_info(self) -> dict[str, Any]:
        """The facts about this model that lm_eval writes into its results."""
        return {"model_name": self.name, "model_dtype": self._dtype, "decoding": self.options}

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Answers in the order of ``requests``; each is the answer that it would be alone.

        Each repeat of a request adds 1 to its seed. Raises ``PromptError`` for a prompt that is too
        long, and ``OptionError`` for arguments of a task that cannot be honoured.
        """
        self.expect(len(requests))
        jobs = list(self._jobs(requests))
        keys = [digest("generate", self.name, self._dtype, ids, asdict(c)) for ids, c in jobs]
        found: dict[str, tuple[Completion, float]] = {}
        for key in keys:
            if self.journal and (kept := self.journal.get(key)):
                found[key] = Completion(**kept["completion"]), kept["wall"]
        self.watch(sum(key in found for key in keys))
        sharing: dict[str, list[Any]] = defaultdict(list)  # equal requests are decoded once
        for request, key in zip(requests, keys, strict=True):
            sharing[key].append(request)
        waiting: dict[str, dict[str, Job]] = defaultdict(dict)
        for request, key, job in zip(requests, keys, jobs, strict=True):
            if key not in found:
                waiting[request.task_name][key] = job
        for task_jobs in waiting.values():  # task by task, so that each has its own time
            for key, completion, wall in self._decode(task_jobs):
                found[key] = completion, wall
                if self.journal:
                    self.journal.add(key, {"completion": asdict(completion), "wall": wall})
                for request in sharing[key]:
                    self.cache_hook.add_partial("generate_until", request.args, completion.text)
                    self.watch(1)
        seen: Counter[int] = Counter()
        for request, key, (_, config) in zip(requests, keys, jobs, strict=True):
            seen[id(request)] += 1
            # lm_eval pads the ranks' lists to one length by repeating requests: beyond the repeats
            # that were asked for, an answer is no sample.
            if seen[id(request)] <= request.repeats:
                self.answers.append(Answer(request.task_name, request.doc_id, config, *found[key]))
        return [found[key][0].text for key in keys]

    def _jobs(self, requests: Sequence[Any]) -> Iterator[Job]:
        seen: Counter[int] = Counter()
        for request in requests:
            context, arguments = request.args
            config = request_config(arguments, self.options)
            if nth := seen[id(request)] % request.repeats:
                config = config.merge(seed=config.seed + nth)
            seen[id(request)] += 1
            yield tokens(self.engine.tokenizer, context), config

    def _decode(self, waiting: Mapping[str, Job]) -> Iterator[tuple[str, Completion, float]]:
        """Keys, completions and the seconds since the one before, in the order they finish."""
        keys, last = list(waiting), time.perf_counter()
        try:
            for i, completion in self.engine.run(list(waiting.values()), self.batch_size):
                now = time.perf_counter()
                yield keys[i], completion, now - last
                last = now
        except PromptError as error:
            raise PromptError(f"{error}; give fewer examples or a smaller gen_length") from error

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Log-likelihoods of continuations in nats, each with its greedy flag.

        The flag is true if plain decoding gives the continuation. The estimates are those of
        ``likelihood.log_likelihood``, which names the errors raised.
        """
        self.expect(len(requests))
        estimates = []
        for request in requests:
            prefix, target = pair(self.engine.tokenizer, *request.args)
            kept = self._estimated(request, prefix, target, greedy=True)
            estimates.append((kept["loglikelihood"], kept["greedy"]))
            self.cache_hook.add_partial("loglikelihood", request.args, estimates[-1])
            self.watch(1)
        return estimates

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Log-likelihoods of whole texts in nats.

        A text longer than the model's positions is cut into pieces of half that length. Each piece
        is estimated after as many of the tokens before it as fit.
        """
        self.expect(len(requests))
        estimates = []
        for request in requests:
            (text,) = request.args
            ids = tokens(self.engine.tokenizer, Templated(text))
            room = self.engine.network.config.max_position_embeddings - 2  # start and end tokens
            piece = room if len(ids) <= room else room // 2
            total = 0.0
            for start in range(0, len(ids), piece):
                prefix = ids[max(0, start - (room - piece)) : start]
                kept = self._estimated(request, prefix, ids[start : start + piece], greedy=False)
                total += kept["loglikelihood"]
            estimates.append(total)
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
            self.watch(1)
        return estimates

    def _estimated(
        self, request: Any, prefix: list[int], target: list[int], greedy: bool
    ) -> dict[str, Any]:
        seed = int(self.options.get("seed", 0))
        key = digest(
            "likelihood", self.name, self._dtype, prefix, target, self.mc_num, seed, greedy
        )
        kept = self.journal.get(key) if self.journal else None
        if kept is None:
            began = time.perf_counter()
            # The key as the seed: every request has draws of its own, on whatever rank it is.
            value, passes = likelihood.log_likelihood(
                self.engine, prefix, target, self.mc_num, int(key, 16), self.batch_size
            )
            same = greedy and likelihood.is_greedy(self.engine, prefix, target)
            kept = {"loglikelihood": value, "greedy": same, "passes": passes}
            kept["wall"] = time.perf_counter() - began
            if self.journal:
                self.journal.add(key, kept)
        cost = Likelihood(request.task_name, request.doc_id, kept["passes"], kept["wall"])
        self.likelihoods.append(cost)
        return kept
