"""Weight files: safetensors shards, mapped into memory, read by name and checked for shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from entropycache.errors import CheckpointError

PLAIN = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
"""What weights may be stored in; anything else needs scales that are not read here."""


def open_weights(folder: Path, stack: ExitStack) -> Callable[[str, tuple[int, ...]], Tensor]:
    """A reader of tensors by name and expected size over all shards of a folder, each mapped into
    memory.
    """
    where = _weight_map(folder)
    opened: dict[str, Any] = {}

    def shard(name: str) -> Any:
        if name not in opened:
            path = folder / name
            if not path.is_file():
                raise CheckpointError(f"{folder}: weight file {name} is missing")
            try:
                opened[name] = stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise CheckpointError(
                    f"{path}: damaged or truncated weight file: {error}"
                ) from error
        return opened[name]

    if not where:
        single = folder / "model.safetensors"
        for path in [single] if single.exists() else sorted(folder.glob("*.safetensors")):
            where |= dict.fromkeys(shard(path.name).keys(), path.name)
    if not where:
        raise CheckpointError(f"{folder}: no *.safetensors weight file")

    def read(name: str, size: tuple[int, ...]) -> Tensor:
        if name not in where:
            raise CheckpointError(
                f"{folder}: no weight {name!r} in its {len(set(where.values()))} weight file(s)"
            )
        try:
            tensor = shard(where[name]).get_tensor(name)
        except SafetensorError as error:
            raise CheckpointError(
                f"{folder / where[name]}: cannot read {name!r}: {error}"
            ) from error
        return checked(tensor, name, size, str(folder / where[name]))

    return read


def _weight_map(folder: Path) -> dict[str, str]:
    """Which shard holds which weight, from the index file where there is one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return {}
    try:
        return dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{index}: not a weight index: {error!r}") from error


def checked(tensor: Tensor, name: str, size: tuple[int, ...], where: str) -> Tensor:
    """The tensor, if it has the size that the config asks for."""
    if tuple(tensor.shape) != size:
        raise CheckpointError(
            f"{where}: {name} has shape {tuple(tensor.shape)}; the config asks for {size}"
        )
    if tensor.dtype not in PLAIN:
        raise CheckpointError(
            f"{where}: {name} is stored as {tensor.dtype}; quantised weights are not supported"
        )
    return tensor
