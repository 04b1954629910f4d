"""The optimizers of a training run: Muon for the layers' matrices, AdamW for everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from entropycache.models.transformer import Transformer

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan et al. (2024), tuned for few iterations, not for exact convergence."""


class Muon(torch.optim.Optimizer):
    """Momentum with nearly orthogonal updates of matrices (Jordan et al. 2024).

    Updates are scaled to the size of AdamW's (Liu et al., arXiv 2502.16982). PyTorch's own Muon
    computes the orthogonal factor in bfloat16, which takes minutes a step on a processor without
    bfloat16 arithmetic; here it has the dtype ``compute``.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        weight_decay: float,
        momentum: float = 0.95,
        compute: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.compute = compute

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient; ``closure`` is not called."""
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                average = state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
                update = orthogonal(parameter.grad.lerp(average, momentum), self.compute)
                parameter.mul_(1 - rate * group["weight_decay"])
                # An orthogonal matrix has entries near max(shape) ** -0.5; AdamW's are near 0.2.
                parameter.add_(update, alpha=-0.2 * rate * max(parameter.shape) ** 0.5)


def orthogonal(matrix: Tensor, compute: torch.dtype, iterations: int = 5) -> Tensor:
    """``matrix`` ``(n, m)`` with singular values moved near 1, in its own dtype.

    Newton-Schulz iterations of fifth degree are computed in the dtype ``compute``.
    """
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]  # transposed, so that the Gram matrix is the small one
    x = (matrix.T if tall else matrix).to(compute)
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


def optimizers(
    network: Transformer, rate: float, weight_decay: float, compute: torch.dtype
) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, and AdamW for embedding, head, norms and biases."""
    layers = [p for p in network.layers.parameters() if p.ndim == 2]
    matrices = {id(p) for p in layers}
    rest: list[Any] = [p for p in network.parameters() if id(p) not in matrices]
    return [
        Muon(layers, rate, weight_decay, compute=compute),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
