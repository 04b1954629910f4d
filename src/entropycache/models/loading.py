"""Checkpoints to networks and back: local folders, hub ids, loaded Hugging Face models.

A published checkpoint loads by renaming weights; no code from the checkpoint is run. This module
knows files and names, not how a network decodes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from entropycache.errors import CheckpointError, OptionError
from entropycache.models.config import ModelConfig
from entropycache.models.family import Family
from entropycache.models.registry import family_of
from entropycache.models.transformer import LayerWeights, Transformer
from entropycache.models.weights import checked, open_weights

EMBEDDED = "tiny"
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Checkpoint:
    """A folder with ``config.json``, read, and its family."""

    folder: Path
    config: Mapping[str, Any]
    family: Family


def locate(model: str) -> Path:
    """The folder of ``model``: ``tiny`` is the embedded model; then a local folder; then a hub id,
    downloaded.

    Hub ids go through ``huggingface_hub.snapshot_download`` (its cache, its ``HF_HUB_OFFLINE``, its
    token), weights as safetensors only.
    """
    if model == EMBEDDED:
        return Path(str(files("entropycache") / "assets" / EMBEDDED))
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise CheckpointError(
            f"{model}: no such folder; give {EMBEDDED!r}, a local folder or a hub id as in org/name"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                model, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
            )
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{model}: no such folder, and the hub did not give it: {reason}"
        ) from error


def read_config(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``, its ``config.json`` checked for a known family."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder}: no config.json; a model folder holds config.json and *.safetensors"
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not readable as JSON: {error}") from error
    return Checkpoint(folder, config, family_of(config, str(path)))


def read_model_config(family: Family, config: Mapping[str, Any], where: str) -> ModelConfig:
    """The network's shape; a config that lacks a number, or has a wrong one, is an error."""
    try:
        shape = family.read_config(config)
    except KeyError as error:
        raise CheckpointError(f"{where}: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{where}: a number of the config cannot be used: {error}") from error
    for item in fields(shape):
        value = getattr(shape, item.name)
        if item.type == "int" and (type(value) is not int or value < 1):
            raise CheckpointError(f"{where}: {item.name} comes to {value!r}, not a whole number")
    return shape


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device gains from bfloat16: of x86 processors those with matrix tiles (AMX).

    Processors without any bfloat16 instruction are about a hundred times slower in it than in
    float32; one with vector instructions alone (avx512_bf16) was measured at half the speed.
    """
    if device.type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_amx_tile_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pick_dtype(name: str, config: Mapping[str, Any], device: torch.device) -> torch.dtype:
    """A dtype by name; ``auto`` is the one the checkpoint was saved in, or float32 where that is
    bfloat16 and the device does not gain from it.
    """
    stored = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16").removeprefix(
        "torch."
    )
    wanted = (stored if stored in DTYPES else "bfloat16") if name == "auto" else name
    if wanted not in DTYPES:
        raise OptionError(f"unknown dtype {name!r}; known: auto, {', '.join(DTYPES)}")
    if name == "auto" and wanted == "bfloat16" and not native_bfloat16(device):
        return torch.float32
    return DTYPES[wanted]


def load_network(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Transformer:
    """Read a checkpoint's weights, memory-mapped, shard by shard, straight into fused matrices."""
    where = str(checkpoint.folder / "config.json")
    shape = read_model_config(checkpoint.family, checkpoint.config, where)
    with ExitStack() as stack:
        tensors = open_weights(checkpoint.folder, stack)

        def fused(names: Iterator[str] | list[str], *sizes: tuple[int, ...]) -> Tensor:
            whole = torch.empty(
                (sum(s[0] for s in sizes), *sizes[0][1:]), dtype=dtype, device=device
            )
            parts = torch.split(whole, [s[0] for s in sizes])
            for part, name, size in zip(parts, names, sizes, strict=True):
                part.copy_(tensors(name, size))
            return whole

        def group(names: list[str], sizes: list[tuple[int, ...]]) -> list[Tensor]:
            return [fused(names, *sizes)]

        return _assemble(checkpoint.family, shape, lambda name, size: fused([name], size), group)


def adopt_network(family: Family, shape: ModelConfig, tensors: Mapping[str, Tensor]) -> Transformer:
    """A network over tensors that are already loaded; they are shared, not copied, and stay
    unfused.
    """

    def one(name: str, size: tuple[int, ...]) -> Tensor:
        if name not in tensors:
            raise CheckpointError(f"the model has no weight {name!r}")
        return checked(tensors[name].detach(), name, size, "the model")

    def group(names: list[str], sizes: list[tuple[int, ...]]) -> list[Tensor]:
        return [one(name, size) for name, size in zip(names, sizes, strict=True)]

    return _assemble(family, shape, one, group)


def _assemble(
    family: Family,
    model: ModelConfig,
    one: Callable[[str, tuple[int, ...]], Tensor],
    group: Callable[[list[str], list[tuple[int, ...]]], list[Tensor]],
) -> Transformer:
    """A network whose tensors come from ``one`` (by name and size) and, where they may be fused,
    from ``group``.
    """
    names, hidden, inner = family.names, model.hidden_size, model.intermediate_size
    q, kv = model.query_size, model.key_size
    layers = []
    for i in range(model.num_hidden_layers):
        biases = [n.format(i) for n in names.qkv_bias] if model.attention_bias else []
        weights = [n.format(i) for n in names.qkv]
        layers.append(
            LayerWeights(
                attn_norm=one(names.attn_norm.format(i), (hidden,)),
                qkv=group(weights, [(q, hidden), (kv, hidden), (kv, hidden)]),
                qkv_bias=group(biases, [(q,), (kv,), (kv,)]) if biases else [],
                out=one(names.out.format(i), (hidden, q)),
                mlp_norm=one(names.mlp_norm.format(i), (hidden,)),
                gate_up=group([n.format(i) for n in names.gate_up], [(inner, hidden)] * 2),
                down=one(names.down.format(i), (hidden, inner)),
            )
        )
    embedding = one(names.embedding, (model.vocab_size, hidden))
    tied = model.tie_word_embeddings
    head = embedding if tied else one(names.head, (model.vocab_size, hidden))
    network = Transformer(model, embedding, layers, one(names.norm, (hidden,)), head)
    return network.requires_grad_(False)


def save_network(
    network: Transformer, family: Family, config: Mapping[str, Any], folder: Path
) -> None:
    """Write ``config.json`` and ``model.safetensors`` in bfloat16 under the family's published
    names. A tied head is written as a copy where ``config`` does not say that it is tied.
    """
    model, names = network.config, family.names
    sizes = [model.query_size, model.key_size, model.key_size]
    tensors: dict[str, Tensor] = {names.embedding: network.embedding, names.norm: network.norm}
    if not family.read_config(config).tie_word_embeddings:
        tensors[names.head] = network.head
    for i, layer in enumerate(network.typed_layers()):
        named: dict[str, Tensor] = {
            names.attn_norm: layer.attn_norm,
            names.out: layer.out,
            names.mlp_norm: layer.mlp_norm,
        }
        named |= {names.down: layer.down}
        named |= dict(
            zip(names.qkv, torch.split(torch.cat([*layer.qkv.weights]), sizes), strict=True)
        )
        if model.attention_bias:
            named |= dict(
                zip(names.qkv_bias, torch.split(torch.cat([*layer.qkv.biases]), sizes), strict=True)
            )
        named |= dict(zip(names.gate_up, torch.cat([*layer.gate_up.weights]).chunk(2), strict=True))
        tensors |= {name.format(i): tensor for name, tensor in named.items()}
    folder.mkdir(parents=True, exist_ok=True)
    plain = {
        name: t.detach().to(torch.bfloat16).contiguous().clone() for name, t in tensors.items()
    }
    save_file(plain, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=1) + "\n", encoding="utf-8")
