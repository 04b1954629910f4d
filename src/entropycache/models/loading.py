"""Checkpoints to networks and back: local folders, hub ids, loaded Hugging Face models.

A published checkpoint loads by renaming weights; no code from the checkpoint is run. This module
knows files and names, not how a network decodes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from entropycache.errors import CheckpointError, OptionError
from entropycache.io.json_file import read_object
from entropycache.models.config import ModelConfig, check_model_config
from entropycache.models.config_keys import ReadKeys, check_fixed, warn_of_unread
from entropycache.models.family import Family
from entropycache.models.registry import family_of
from entropycache.models.transformer import LayerWeights, Transformer
from entropycache.models.weights import check_names, checked, open_weights

EMBEDDED = "tiny"
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Checkpoint:
    """A model folder: its ``config.json``, the family that this names, and its
    ``generation_config.json``, empty where there is none.
    """

    folder: Path
    config: Mapping[str, Any]
    family: Family
    generation: Mapping[str, Any]


def locate(model: str) -> Path:
    """The folder of a model: ``tiny`` for the embedded one, a local folder, or a hub id.

    A hub id is downloaded by ``huggingface_hub.snapshot_download``, with its cache, its
    ``HF_HUB_OFFLINE`` and its token; of weights, safetensors only. Raises ``CheckpointError`` where
    nothing is found.
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
    # Imported here: only hub ids need it, and local models load faster without it.
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
    """The checkpoint in ``folder``, its ``config.json`` checked for a known family, with its
    ``generation_config.json`` where there is one.
    """
    path, generation = folder / "config.json", folder / "generation_config.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: no config.json; a model folder holds config.json and *.safetensors"
        )
    config = read_object(path)
    family = family_of(config, str(path))
    return Checkpoint(
        folder, config, family, read_object(generation) if generation.exists() else {}
    )


def read_model_config(family: Family, config: Mapping[str, Any], where: str) -> ModelConfig:
    """The numbers of the network that a config describes.

    Raises ``CheckpointError``, which starts with ``where``, for a number that is missing or cannot
    be used, and for a setting that is not supported. Warns of settings that nothing here knows.
    """
    seen = ReadKeys(config)
    try:
        check_fixed(seen, family.fixed, family.model_type)
        model = check_model_config(family.read_config(seen))
    except KeyError as error:
        raise CheckpointError(f"{where}: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{where}: a number of the config cannot be used: {error}") from error
    except CheckpointError as error:
        raise CheckpointError(f"{where}: {error}") from error
    warn_of_unread(seen, family.idle, where)
    return model


def native_bfloat16(device: torch.device) -> bool:
    """True if the device is faster in bfloat16: of x86 processors those with matrix tiles (AMX)."""
    # Processors without any bfloat16 instruction are about a hundred times slower in it than in
    # float32. One with vector instructions alone (avx512_bf16) was measured at half the speed.
    if device.type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_amx_tile_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pick_dtype(name: str, config: Mapping[str, Any], device: torch.device) -> torch.dtype:
    """The dtype of a name; ``auto`` is the one that the checkpoint was saved in.

    Where that is bfloat16 and the device is not faster in it, ``auto`` is float32. Raises
    ``OptionError`` for an unknown name.
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
    """Read a checkpoint's weights, memory-mapped, shard by shard, straight into fused matrices.

    Raises ``CheckpointError`` for a weight that is missing, that no module takes, or that is not of
    the size its config asks for.
    """
    where = str(checkpoint.folder / "config.json")
    model = read_model_config(checkpoint.family, checkpoint.config, where)
    sizes = checkpoint.family.weight_sizes(model)
    with ExitStack() as stack:
        weights = open_weights(checkpoint.folder, stack)
        check_names(weights.names, sizes, checkpoint.family, model, str(checkpoint.folder))

        def fused(names: list[str]) -> Tensor:
            rows = [sizes[name][0] for name in names]
            whole = torch.empty((sum(rows), *sizes[names[0]][1:]), dtype=dtype, device=device)
            for part, name in zip(torch.split(whole, rows), names, strict=True):
                part.copy_(weights.read(name, sizes[name]))
            return whole

        return _assemble(
            checkpoint.family, model, lambda name: fused([name]), lambda names: [fused(names)]
        )


def adopt_network(family: Family, model: ModelConfig, tensors: Mapping[str, Tensor]) -> Transformer:
    """A network over tensors that are already loaded; they are shared, not copied, and stay
    unfused. Raises ``CheckpointError`` as ``load_network`` does.
    """
    sizes = family.weight_sizes(model)
    check_names(tensors, sizes, family, model, "the model")

    def one(name: str) -> Tensor:
        return checked(tensors[name].detach(), name, sizes[name], "the model")

    return _assemble(family, model, one, lambda names: [one(name) for name in names])


def _assemble(
    family: Family,
    model: ModelConfig,
    one: Callable[[str], Tensor],
    group: Callable[[list[str]], list[Tensor]],
) -> Transformer:
    """A network whose tensors come from ``one`` by name and, where they may be fused, from
    ``group``.
    """
    names = family.names
    layers = []
    for i in range(model.num_hidden_layers):
        biases = [n.format(i) for n in names.qkv_bias] if model.attention_bias else []
        layers.append(
            LayerWeights(
                attn_norm=one(names.attn_norm.format(i)),
                qkv=group([n.format(i) for n in names.qkv]),
                qkv_bias=group(biases) if biases else [],
                out=one(names.out.format(i)),
                mlp_norm=one(names.mlp_norm.format(i)),
                gate_up=group([n.format(i) for n in names.gate_up]),
                down=one(names.down.format(i)),
            )
        )
    embedding = one(names.embedding)
    head = embedding if model.tie_word_embeddings else one(names.head)
    return Transformer(model, embedding, layers, one(names.norm), head).requires_grad_(False)


def save_network(
    network: Transformer, family: Family, config: Mapping[str, Any], folder: Path
) -> None:
    """Write ``config.json`` and, in bfloat16, ``model.safetensors`` with the family's names.

    A tied head is written as a copy where ``config`` does not say that it is tied.
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
