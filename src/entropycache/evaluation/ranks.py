"""Data-parallel ranks as ``torchrun`` starts them: which one this is, and how they exchange counts
and results.

They exchange over gloo, which serves processors and GPUs alike: no tensor of a model is sent.
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
"""How long a rank waits for the slowest one."""


@dataclass(frozen=True)
class Ranks:
    """This process's place among ``size`` processes. Alone, every exchange is with itself."""

    rank: int = 0
    size: int = 1
    group: Any = None

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all ranks, one after the other."""
        if self.size == 1:
            return tensor.reshape(-1)
        own = tensor.detach().cpu().reshape(-1)
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own, group=self.group)
        return torch.cat(found)

    def gather_object(self, value: Any, dst: int = 0) -> list[Any] | None:
        """The values of all ranks on rank ``dst``, ``None`` on the others."""
        if self.size == 1:
            return [value]
        found: list[Any] | None = [None] * self.size if self.rank == dst else None
        dist.gather_object(value, found, dst=dst, group=self.group)
        return found

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier(group=self.group)


def join() -> Ranks:
    """The ranks that the environment describes, or that a process group already has."""
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
    """The GPU of this rank, where ``auto`` leaves the choice and there are several ranks."""
    if device != "auto" or "LOCAL_RANK" not in os.environ or not torch.cuda.is_available():
        return device
    return f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
