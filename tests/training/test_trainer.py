"""The trainer: it resumes exactly, shares its steps among parts, and lowers the loss."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

pytest.importorskip("reasoning_gym")

from entropycache.errors import OptionError
from entropycache.models.random_init import random_network
from entropycache.training import corpus
from entropycache.training import trainer as trainer_module
from entropycache.training.objective import Batch, Objective, ask
from entropycache.training.settings import Stage, TrainConfig
from entropycache.training.trainer import Trainer
from tests.training.tools import SHAPE


def config(steps: int) -> TrainConfig:
    mixture = corpus.Mixture({"chain_sum": 1.0, "products": 1.0}, few_shot=0.0, long_tail=0.0)
    stages = (
        Stage(0, mixture, (Objective.AUTOREGRESSIVE,)),
        Stage(2, mixture, (Objective.AUTOREGRESSIVE, Objective.MASKED)),
        Stage(4, mixture, (Objective.MASKED_INVERSE,)),
    )
    return TrainConfig(SHAPE, stages, steps, warmup=2, decay=2, batch_tokens=512, chunk_examples=12)


def weights_after(trainer: Trainer) -> dict[str, torch.Tensor]:
    trainer.run(every=3, evaluate=lambda network: {"accuracy": 0.5})
    return {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}


@pytest.mark.parametrize("parts", [1, 3])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(
    tokenizer, tmp_path, monkeypatch, parts
):
    settings = replace(config(6), parts=parts)
    whole = weights_after(Trainer(settings, tokenizer, tmp_path / "whole", compiled=False))

    class Stopped(Exception):
        pass

    def stop(**numbers):
        raise Stopped

    first = Trainer(settings, tokenizer, tmp_path / "cut", compiled=False)
    monkeypatch.setattr(first, "_log", stop)
    with pytest.raises(Stopped):
        first.run(every=3, evaluate=lambda network: {})
    second = Trainer(settings, tokenizer, tmp_path / "cut", compiled=False)
    assert second.position.step == 3
    resumed = weights_after(second)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert (tmp_path / "cut" / "train.json").exists()
    assert '"accuracy": 0.5' in (tmp_path / "cut" / "log.jsonl").read_text()
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("cut", "whole")]
    ends = [json.loads(log[-1])["tokens"] for log in logs]
    assert ends[0] == ends[1] > 0, "tokens seen are counted over the stop"
    assert (tmp_path / "cut" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_loses_its_torn_line_and_is_locked_while_the_run_lasts(
    tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(Trainer, "validation_loss", lambda self: {})
    (tmp_path / "log.jsonl").write_text('{"step": 0}\n{"step": 1, "lo')
    first, second = (Trainer(config(2), tokenizer, tmp_path, compiled=False) for _ in range(2))
    said = []

    def evaluate(network):
        with pytest.raises(OptionError, match="log.jsonl: cannot be written: another run") as found:
            second.run(every=2, evaluate=lambda network: {})
        said.append(str(found.value))
        return {}

    first.run(every=1, evaluate=evaluate)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2]
    assert len(said) == 2 and second.position.step == 0
    second.run(every=2, evaluate=lambda network: {})
    assert second.position.step == 2, "the lock goes with the run"


def test_the_parts_of_a_step_differ_in_length_and_objective_and_share_its_rows(
    tokenizer, tmp_path, monkeypatch
):
    tasks = ("chain_sum", "leg_counting", "family_relationships")
    mixture = corpus.Mixture(dict.fromkeys(tasks, 1.0), few_shot=0.0, long_tail=0.0)
    objectives = (Objective.AUTOREGRESSIVE, Objective.PREFIX)
    settings = replace(config(4), stages=(Stage(0, mixture, objectives),), batch_tokens=4096)
    asked: list[tuple[Batch, Objective]] = []

    def recorded(batch, objective, *rest):
        asked.append((batch, objective))
        return ask(batch, objective, *rest)

    trainer = Trainer(
        replace(settings, parts=4, chunk_examples=100), tokenizer, tmp_path, compiled=False
    )
    monkeypatch.setattr(trainer, "validation_loss", dict)
    monkeypatch.setattr(trainer_module, "ask", recorded)
    trainer.run(every=4, evaluate=lambda network: {})
    assert len(asked) == 4 * 4
    steps = [asked[i : i + 4] for i in range(0, len(asked), 4)]
    for step in steps:
        assert len({batch.ids.shape[1] for batch, _ in step}) > 1
        assert [objective for _, objective in step] == [*objectives, *objectives]
        assert sum(2 * batch.ids.numel() for batch, _ in step) <= 4096
    assert trainer.position.tokens == sum(2 * batch.ids.numel() for batch, _ in asked)


def test_the_gradient_of_a_step_is_the_mean_over_its_parts(tokenizer, tmp_path, monkeypatch):
    gradients = []

    class Recorder(torch.optim.SGD):
        def step(self, closure=None):
            gradients.append([p.grad.clone() for p in trainer.network.parameters()])

    def unmoved(network, rate, *rest):
        return [Recorder(network.parameters(), lr=rate)]

    monkeypatch.setattr(trainer_module, "optimizers", unmoved)
    monkeypatch.setattr(trainer_module.nn.utils, "clip_grad_norm_", lambda parameters, norm: None)
    stages = (Stage(0, config(1).stages[0].mixture, (Objective.AUTOREGRESSIVE,)),)
    one = replace(config(2), stages=stages, batch_tokens=256)
    for name, settings in (("one", one), ("two", replace(one, steps=1, batch_tokens=512, parts=2))):
        trainer = Trainer(settings, tokenizer, tmp_path / name, compiled=False)
        monkeypatch.setattr(trainer, "validation_loss", dict)
        trainer.run(every=2, evaluate=lambda network: {})
    first, second, both = gradients
    for a, b, mean in zip(first, second, both, strict=True):
        torch.testing.assert_close(mean, (a + b) / 2)


def test_a_run_goes_on_with_its_own_shape_and_seed_only(tokenizer, tmp_path):
    trainer = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    trainer.save()
    Trainer(replace(config(9), decay=1), tokenizer, tmp_path, compiled=False)
    for other in (
        replace(config(6), seed=1),
        replace(config(6), shape=replace(SHAPE, num_hidden_layers=1)),
    ):
        with pytest.raises(OptionError, match="begun with another shape or seed"):
            Trainer(other, tokenizer, tmp_path, compiled=False)


def test_a_run_keeps_the_arithmetic_it_was_begun_with(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "native_bfloat16", lambda device: False)
    first = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    first.save()
    monkeypatch.setattr(trainer_module, "native_bfloat16", lambda device: True)
    assert not first.bfloat16
    assert not Trainer(config(6), tokenizer, tmp_path, compiled=False).bfloat16
    assert Trainer(config(6), tokenizer, tmp_path / "other", compiled=False).bfloat16


def test_a_run_can_begin_from_trained_weights_of_its_shape(tokenizer, tmp_path):
    trained = random_network(SHAPE, seed=7)
    trainer = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    trainer.start_from(trained)
    assert torch.equal(trainer.network.embedding, trained.embedding)
    assert torch.equal(trainer.network.layers[1].down, trained.layers[1].down)
    with pytest.raises(OptionError, match="the weights to begin from have"):
        trainer.start_from(random_network(replace(SHAPE, intermediate_size=80)))


def test_training_lowers_the_loss(tokenizer, tmp_path):
    mixture = corpus.Mixture({"products": 1.0}, few_shot=0.0, long_tail=0.0)
    settings = TrainConfig(
        SHAPE, (Stage(0, mixture),), 30, warmup=5, decay=5, batch_tokens=1024, chunk_examples=64
    )
    trainer = Trainer(settings, tokenizer, tmp_path, compiled=False)
    before = trainer.validation_loss(8)["val/products"]
    trainer.run(every=30, evaluate=lambda network: {})
    assert trainer.validation_loss(8)["val/products"] < before - 2


def test_the_rate_warms_up_holds_and_decays_to_zero(tokenizer, tmp_path):
    stages = (replace(config(6).stages[0], rate=1.0),)
    settings = TrainConfig(SHAPE, stages, 100, warmup=10, decay=20)
    trainer = Trainer(settings, tokenizer, tmp_path, compiled=False)
    rates = []
    for trainer.position.step in (0, 4, 9, 50, 80, 90, 99, 100):
        rates.append(round(trainer.rate(), 4))
    assert rates == [0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.05, 0.0]
