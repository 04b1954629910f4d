"""The work of ``entropycache train`` and ``entropycache problems`` once their options are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from entropycache.engine.engine import load
from entropycache.io.problems import held_out, task_names
from entropycache.models import llada, loading
from entropycache.models.transformer import Transformer
from entropycache.training.corpus import write_evaluation_sets
from entropycache.training.evaluate import solved
from entropycache.training.export import llada_config
from entropycache.training.recipe import VOCABULARY, vocabulary_texts
from entropycache.training.settings import TrainConfig
from entropycache.training.trainer import Trainer
from entropycache.training.vocabulary import save_tokenizer, train_tokenizer


def train(
    folder: Path, settings: TrainConfig, start: str | None, every: int, problems: int
) -> None:
    """Train in ``folder``, and continue the run that the folder holds.

    A new run starts from random weights, or from those of the checkpoint ``start``, whose
    vocabulary it then keeps. Every ``every`` steps the run is saved, ``problems`` held-out problems
    of each task are decoded plainly, and the weights are exported in LLaDA's format to
    ``folder/model``.

    Raises ``OptionError`` if the folder's run has another shape or seed, if ``start`` has another
    shape, or if another process writes to the log, and ``CheckpointError`` for a ``start`` that
    cannot be loaded.
    """
    # Gradients of sharp attention are full of subnormal numbers, with which x86 processors take
    # twice as long a step. Threads inherit the setting, so that it must come before their start.
    torch.set_flush_denormal(True)
    tokenizer = _tokenizer(folder, start)
    fresh = not (folder / "state.pt").exists()
    trainer = Trainer(settings, tokenizer, folder)
    if start is not None and fresh:
        trainer.start_from(load(start, dtype="float32", device="cpu").network)

    def evaluate(network: Transformer) -> dict[str, float]:
        export(network, tokenizer, folder / "model")
        engine = load(str(folder / "model"), device="cpu")  # what would be shipped is judged
        asked = {t: held_out(t)[:problems] for t in task_names()}
        return {f"exact/{t}": solved(engine, few) / len(few) for t, few in asked.items()}

    trainer.run(every, evaluate)
    print(f"trained to step {trainer.position.step}; weights in {folder / 'model'}")


def export(network: Transformer, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a network in training as a LLaDA checkpoint with its tokenizer."""
    mask_id, end_id = tokenizer.mask_token_id, tokenizer.eos_token_id
    # Untied on disk, as the published checkpoints are: every code for LLaDA reads that.
    config = llada_config(replace(network.config, tie_word_embeddings=False), mask_id, end_id)
    with torch.no_grad():
        loading.save_network(network, llada.LLADA, config, folder)
    save_tokenizer(tokenizer, folder)


def write_problems(folder: Path) -> None:
    """Draw the held-out problems again and write them, one JSONL file for each task."""
    write_evaluation_sets(folder)
    print(f"wrote the problems of {len(list(folder.glob('*.jsonl')))} tasks to {folder}")


def _tokenizer(folder: Path, start: str | None) -> PreTrainedTokenizerBase:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder if (folder / "tokenizer.json").exists() else start and loading.locate(start)
    if source:
        tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(str(source))
        save_tokenizer(tokenizer, folder)
        return tokenizer
    return train_tokenizer(vocabulary_texts(), VOCABULARY, folder)
