"""The training loop of a masked diffusion model: a resumed run ends as an uninterrupted one would.

The module does not know how accuracy is decoded; that is given to it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from entropycache.errors import OptionError
from entropycache.io.jsonl import JsonlWriter
from entropycache.models.full_pass import hidden_states
from entropycache.models.loading import native_bfloat16
from entropycache.models.random_init import random_network
from entropycache.models.transformer import Transformer
from entropycache.training.batches import (
    Encoded,
    batches,
    close_lengths,
    encode,
    fixed_shapes,
    together,
)
from entropycache.training.corpus import TRAINING_SEEDS, VALIDATION_SEEDS, Mixture, draw_chunk
from entropycache.training.curves import draw_curves
from entropycache.training.losses import loss
from entropycache.training.objective import Batch, Objective, ask
from entropycache.training.optimizers import optimizers
from entropycache.training.settings import Stage, TrainConfig, check_resumed

COMPILED_LENGTH = 320
"""The longest compiled batch. Longer ones are rare: compiling for their lengths would not pay."""


@dataclass
class Position:
    """The position of a run: optimiser steps made, and the chunk of the corpus being read."""

    step: int = 0
    chunk: int = 0
    chunk_step: int = 0
    """The step at which the chunk was started. It decides the stage, and the number of the chunk's
    batches that are used up.
    """
    tokens: int = 0
    """Rows of all batches so far, both complementary masks counted."""


class Trainer:
    """A run in a folder: ``state.pt`` to continue from, settings, log and curves.

    A run that the folder holds is continued. Raises ``OptionError`` if its shape or seed differ.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokenizer: PreTrainedTokenizerBase,
        folder: Path,
        compiled: bool | None = None,
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.folder = folder
        self.position = Position()
        self.network = random_network(config.shape, config.seed)
        folder.mkdir(parents=True, exist_ok=True)
        saved = None
        if (folder / "state.pt").exists():
            check_resumed(config, folder / "train.json")
            saved = torch.load(folder / "state.pt", weights_only=True)
        self.bfloat16 = saved["bfloat16"] if saved else native_bfloat16(torch.device("cpu"))
        compute = torch.bfloat16 if self.bfloat16 else torch.float32
        self.optimizers = optimizers(
            self.network, config.stages[0].rate, config.weight_decay, compute
        )
        if saved:
            self._restore(saved)
        (folder / "train.json").write_text(json.dumps(asdict(config), indent=1))
        self._forward: Callable[..., Tensor] = hidden_states
        # With fast bfloat16 products a compiled step is half as fast again, after a minute for each
        # length. Without them, batches whose lengths fit the examples gain more.
        self.compiled = self.bfloat16 if compiled is None else compiled
        if self.compiled:
            torch._dynamo.config.recompile_limit = 64
            self._forward = torch.compile(hidden_states, dynamic=False)

    def run(self, every: int, evaluate: Callable[[Transformer], dict[str, float]]) -> None:
        """Train to the configured step; save and log every ``every`` steps.

        The log gets the validation loss in nats and ``evaluate``'s numbers. Raises ``OptionError``
        if another run writes to the log.
        """
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        self.log = JsonlWriter(self.folder / "log.jsonl")
        with self.log, Progress(*columns, TimeRemainingColumn()) as progress:
            bar = progress.add_task(
                "training", total=self.config.steps, completed=self.position.step
            )
            began, recent = time.monotonic(), []
            for parts in self._batches():
                recent.append(self._step(parts))
                progress.update(
                    bar, completed=self.position.step, description=f"loss {recent[-1]:.3f}"
                )
                if self.position.step % every == 0 or self.position.step == self.config.steps:
                    accuracy = evaluate(self.network)
                    self.save()
                    self._log(
                        step=self.position.step,
                        tokens=self.position.tokens,
                        loss=sum(recent) / len(recent),
                        seconds=time.monotonic() - began,
                        rate=self.rate(),
                        **self.validation_loss(),
                        **accuracy,
                    )
                    draw_curves(self.folder / "log.jsonl", self.folder / "curves.png")
                    began, recent = time.monotonic(), []

    def start_from(self, trained: Transformer) -> None:
        """Copy the weights of a trained network of the same shape, tied or not.

        Raises ``OptionError`` for another shape.
        """
        with torch.no_grad():
            theirs = dict(trained.named_parameters())
            for name, parameter in self.network.named_parameters():
                if theirs[name].shape != parameter.shape:
                    raise OptionError(
                        f"the weights to begin from have {name} as {tuple(theirs[name].shape)}; "
                        f"this run needs {tuple(parameter.shape)}"
                    )
                parameter.copy_(theirs[name])

    def save(self) -> None:
        """Write ``state.pt``; a stop in the middle leaves the previous one."""
        state = {
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "position": asdict(self.position),
            "bfloat16": self.bfloat16,
        }
        torch.save(state, self.folder / "state.tmp")
        (self.folder / "state.tmp").replace(self.folder / "state.pt")

    @torch.no_grad()
    def validation_loss(self, per_task: int = 24) -> dict[str, float]:
        """Mean cross-entropy in nats on validation problems of each task, under fixed masks."""
        losses = {}
        for task in self.config.stages[-1].mixture.weights:
            mixture = Mixture({task: 1.0}, few_shot=0.0, long_tail=0.0)
            examples = draw_chunk(mixture, 0, per_task, VALIDATION_SEEDS)
            encoded = [e for e in (encode(self.tokenizer, x) for x in examples) if e is not None]
            total = [
                self._loss(batch, Objective.MASKED, 0, hidden_states).item()
                for batch in self._cut(encoded, 1, random.Random(0))
            ]
            losses[f"val/{task}"] = sum(total) / len(total)
        return losses

    def _restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.position = Position(**state["position"])

    def _batches(self) -> Iterator[tuple[Batch, ...]]:
        """Yield the batches of each step from the current position, and move its chunk along."""
        at, config = self.position, self.config
        while at.step < config.steps:
            mixture = self._stage(at.chunk_step).mixture
            drawn = draw_chunk(mixture, at.chunk, config.chunk_examples, TRAINING_SEEDS)
            encoded = [e for e in (encode(self.tokenizer, x) for x in drawn) if e is not None]
            order = random.Random(f"{config.seed}/{at.chunk}")
            cut = self._cut(encoded, config.batch_tokens // config.parts, order)
            for number, parts in enumerate(together(cut, config.parts)):
                if number < at.step - at.chunk_step:  # used before the run was resumed
                    continue
                if at.step == config.steps:
                    return
                yield parts
            at.chunk, at.chunk_step = at.chunk + 1, at.step

    def _cut(self, encoded: list[Encoded], tokens: int, order: random.Random) -> Iterator[Batch]:
        cut = fixed_shapes if self.compiled else close_lengths
        return batches(encoded, tokens, order, self.tokenizer.eos_token_id, cut)

    def _step(self, parts: tuple[Batch, ...]) -> float:
        at, config = self.position, self.config
        rate = self.rate()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        stage, total = self._stage(at.chunk_step), 0.0
        for number, batch in enumerate(parts, at.step * config.parts):
            objective = stage.objectives[number % len(stage.objectives)]
            seed = config.seed * 1_000_003 + number  # of masks: a resumed run draws the same ones
            value = self._loss(batch, objective, seed, self._forward, stage.far_sharpness)
            torch.autograd.backward(value / len(parts))
            total += value.item() / len(parts)
            at.tokens += 2 * batch.ids.numel()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        at.step += 1
        return total

    def _loss(
        self,
        batch: Batch,
        objective: Objective,
        seed: int,
        forward: Callable[..., Tensor],
        far_sharpness: float = 1.0,
    ) -> Tensor:
        if batch.ids.shape[1] > COMPILED_LENGTH:
            forward = hidden_states
        whole = forward is not hidden_states
        generator = torch.Generator().manual_seed(seed)
        question = ask(batch, objective, self.tokenizer.mask_token_id, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            asked = question.inputs, question.positions, question.visible
            hidden = forward(self.network, *asked, None if whole else lambda: question.rows)
            hidden = hidden[question.rows] if whole else hidden
            return loss(self.network, hidden, question, far_sharpness)

    def _stage(self, step: int) -> Stage:
        return [stage for stage in self.config.stages if stage.from_step <= step][-1]

    def rate(self) -> float:
        """The rate of the next step: linear warm-up, constant, linear to 0 over ``decay`` steps."""
        step, config = self.position.step, self.config
        left = max(0, config.steps - step) / max(1, config.decay)
        return self._stage(step).rate * min(1.0, (step + 1) / config.warmup, left)

    def _log(self, **numbers: float) -> None:
        self.log.write(numbers)
