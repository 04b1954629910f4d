"""The loss of a network's answers to a question."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Transformer
from entropycache.training.objective import Question


def loss(
    network: Transformer, hidden: Tensor, question: Question, far_sharpness: float = 1.0
) -> Tensor:
    """Weighted mean cross-entropy in nats, a scalar, of the ``n`` asked rows.

    ``hidden`` ``(n, width)`` are their hidden states. ``far_sharpness`` multiplies the logits of
    masks behind other masks. Above 1 the network learns to be less sure of them than the data
    would have it.
    """
    rows = question.rows
    logits = network.logits(hidden).float()
    logits *= torch.where(question.far.flatten()[rows, None], far_sharpness, 1.0)
    losses = F.cross_entropy(logits, question.targets.flatten()[rows], reduction="none")
    return (losses * question.weights.flatten()[rows]).mean()
