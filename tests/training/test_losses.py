"""The loss: a weighted cross entropy of the rows that are asked for."""

from __future__ import annotations

import torch

from entropycache.models.full_pass import hidden_states
from entropycache.models.random_init import random_network
from entropycache.training.losses import loss
from entropycache.training.objective import Objective, ask
from tests.training.tools import MASK, SHAPE, some_batch


def test_the_loss_is_the_cross_entropy_of_the_asked_rows():
    network = random_network(SHAPE, 0)
    question = ask(some_batch(), Objective.MASKED, MASK, torch.Generator().manual_seed(0))
    hidden = hidden_states(network, question.inputs, question.positions, question.visible)
    every = network.logits(hidden).log_softmax(-1).gather(1, question.targets.flatten()[:, None])
    expected = -every.flatten()[question.asked.flatten()].mean()
    torch.testing.assert_close(loss(network, hidden[question.rows], question), expected)
    asked = hidden_states(network, question.inputs, question.positions, None, lambda: question.rows)
    torch.testing.assert_close(asked, hidden[question.rows])
    sharp = network.logits(hidden) * torch.where(question.far.flatten(), 1.5, 1.0)[:, None]
    every = sharp.log_softmax(-1).gather(1, question.targets.flatten()[:, None])
    expected = -every.flatten()[question.asked.flatten()].mean()
    torch.testing.assert_close(loss(network, asked, question, far_sharpness=1.5), expected)
