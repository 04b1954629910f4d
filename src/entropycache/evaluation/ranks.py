"""Data-parallel ranks as ``torchrun`` starts them, and the exchange of counts and results.

They exchange over gloo, which works without GPUs: no tensor of a model is sent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_PATIENCE = timedelta(days=7)
"""The time a rank waits for the slowest one, which may have hours of answers left."""


@dataclass(frozen=True)
class Ranks:
    """This process's place among ``size`` processes. Alone, it exchanges with itself."""

    rank: int = 0
    size: int = 1
    group: Any = None

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The elements of all ranks' tensors, ``(size * n,)``, in the order of the ranks.

        The tensors, of any shape, must have the same number of elements ``n``.
        """
        if self.size == 1:
            return tensor.reshape(-1)
        own = tensor.detach().cpu().reshape(-1)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(gathered, own, group=self.group)
        return torch.cat(gathered)

    def gather_object(self, value: Any, dst: int = 0) -> list[Any] | None:
        """The values of all ranks on rank ``dst``, ``None`` on the others."""
        if self.size == 1:
            return [value]
        gathered: list[Any] | None = [None] * self.size if self.rank == dst else None
        dist.gather_object(value, gathered, dst=dst, group=self.group)
        return gathered

    def barrier(self) -> None:
        """Wait until every rank has come to this call."""
        if self.size > 1:
            dist.barrier(group=self.group)


def join() -> Ranks:
    """The ranks of the existing process group, or of a new one that the environment describes."""
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Ranks()
        dist.init_process_group("gloo", timeout=_PATIENCE)
    group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return Ranks(dist.get_rank(), dist.get_world_size(), group)


def leave() -> None:
    """End the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def own_device(device: str) -> str:
    """The GPU of this rank if ``device`` is ``auto`` and there are several ranks, else ``device``.

    Ranks of one machine take its GPUs in turn, by ``LOCAL_RANK``.
    """
    if device != "auto" or "LOCAL_RANK" not in os.environ or not torch.cuda.is_available():
        return device
    return f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
