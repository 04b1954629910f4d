"""Weight files: safetensors shards, mapped into memory, read by name and checked for shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from entropycache.errors import CheckpointError
from entropycache.io.json_file import read_object
from entropycache.models.config import ModelConfig
from entropycache.models.family import Family

PLAIN = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
"""The dtypes that weights may be stored in; others need scales that are not read here."""


BUFFERS = (".inv_freq",)
"""Ends of the names of tensors that are computed from the config: files may hold them."""


class Weights:
    """The tensors of a folder's weight files, each file mapped into memory."""

    def __init__(self, folder: Path, shards: Mapping[str, Any]) -> None:
        self._folder, self._shards = folder, shards
        self._where = {name: file for file, shard in shards.items() for name in shard.keys()}  # noqa: SIM118 - no dict

    @property
    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return self._where

    def read(self, name: str, size: tuple[int, ...]) -> Tensor:
        """One tensor of the expected size. Raises ``CheckpointError`` for another, and for one that
        cannot be read.
        """
        path = self._folder / self._where[name]
        try:
            tensor = self._shards[self._where[name]].get_tensor(name)
        except (SafetensorError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path}: cannot read {name!r}: {error}") from error
        return checked(tensor, name, size, str(path))


def open_weights(folder: Path, stack: ExitStack) -> Weights:
    """All weight files of a folder: those that its index names, else ``model.safetensors``, else
    every ``*.safetensors``. They are open until ``stack`` is closed.

    Raises ``CheckpointError`` for a file that is missing or damaged, and for a tensor that is not
    in the file that the index names.
    """
    index = _index(folder)
    single = folder / "model.safetensors"
    if index:
        files = sorted(set(index.values()))
    elif single.exists():
        files = [single.name]
    else:
        files = sorted(path.name for path in folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder}: no *.safetensors weight file")
    shards = {name: _open(folder / name, stack) for name in files}
    held = {name: set(shard.keys()) for name, shard in shards.items()}
    for tensor, name in index.items():
        if tensor not in held[name]:
            raise CheckpointError(f"{folder / name}: lacks {tensor!r}, which the index says it has")
    return Weights(folder, shards)


def _open(path: Path, stack: ExitStack) -> Any:
    if not path.is_file():
        raise CheckpointError(f"{path.parent}: weight file {path.name} is missing")
    try:
        return stack.enter_context(safe_open(path, framework="pt"))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or truncated weight file: {error}") from error


def _index(folder: Path) -> dict[str, str]:
    """The file of each tensor, from the index of shards where there is one."""
    path = folder / "model.safetensors.index.json"
    if not path.exists():
        return {}
    found = read_object(path).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise CheckpointError(f"{path}: not a weight index: weight_map must name a file a tensor")
    for tensor, name in found.items():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(
                f"{path}: the file of {tensor!r} must be a name in this folder, not {name!r}"
            )
    return found


def check_names(
    there: Collection[str],
    sizes: Mapping[str, Any],
    family: Family,
    model: ModelConfig,
    where: str,
) -> None:
    """Check that every tensor of a checkpoint is taken, and that none is missing.

    A tied head may be there or not. Raises ``CheckpointError`` with up to five names: a tensor that
    no module takes, such as an adapter's, would change the numbers.
    """
    optional = {family.names.head} if model.tie_word_embeddings else set()
    missing = [name for name in sizes if name not in there and name not in optional]
    left = [name for name in sorted(there) if name not in sizes and not name.endswith(BUFFERS)]
    if missing:
        raise CheckpointError(f"{where}: no weight {_some(missing)}")
    if left:
        raise CheckpointError(
            f"{where}: holds weights that no part of a {family.model_type} network takes: "
            f"{_some(left)}"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more


def checked(tensor: Tensor, name: str, size: tuple[int, ...], where: str) -> Tensor:
    """The tensor itself, checked to have the size that the config asks for and a plain dtype.

    Raises ``CheckpointError``, whose message starts with ``where``, if it has not.
    """
    if tuple(tensor.shape) != size:
        raise CheckpointError(
            f"{where}: {name} has shape {tuple(tensor.shape)}; the config asks for {size}"
        )
    if tensor.dtype not in PLAIN:
        raise CheckpointError(
            f"{where}: {name} is stored as {tensor.dtype}; quantised weights are not supported"
        )
    return tensor
