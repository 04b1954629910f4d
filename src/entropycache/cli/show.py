"""``entropycache show``: what a checkpoint is, and what of it decoding uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from entropycache.cli.app import Device, Dtype, app, load_engine

if TYPE_CHECKING:
    from entropycache.engine.engine import Engine

Named = Annotated[str, typer.Argument(help="tiny (the embedded model), a folder, or a hub id")]


@app.command()
def show(model: Named = "tiny", dtype: Dtype = "auto", device: Device = "auto") -> None:
    """Show a checkpoint: its architecture, its size, and the tokens that mask and end."""
    facts = _facts(load_engine(model, dtype, device))
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:{width}}  {value}")


def _facts(engine: Engine) -> dict[str, str]:
    """The facts in the order in which they are shown, each in words."""
    config, tokenizer, family = engine.network.config, engine.tokenizer, engine.family
    weight, backend = engine.network.embedding, tokenizer.backend
    scaling = config.rope_scaling
    rope = "none" if scaling is None else f"{scaling.rope_type}, factor {scaling.factor:g}"
    template = backend is not None and bool(backend.chat_template)
    return {
        "architecture": ", ".join(family.architectures),
        "parameters": f"{engine.network.parameter_count:,}",
        "layers": str(config.num_hidden_layers),
        "hidden size": str(config.hidden_size),
        "attention heads": f"{config.num_attention_heads}, {config.num_key_value_heads} for keys",
        "positions": str(config.max_position_embeddings),
        "rotary scaling": rope,
        "vocabulary": str(config.vocab_size),
        "computes in": f"{str(weight.dtype).removeprefix('torch.')} on {weight.device}",
        "mask token": _token(engine, tokenizer.mask_id),
        "end tokens": "  ".join(_token(engine, i) for i in sorted(tokenizer.end_ids)) or "none",
        "chat template": "yes" if template else "no",
        "calibrated policy": engine.calibrated or "none",
    }


def _token(engine: Engine, token_id: int) -> str:
    backend = engine.tokenizer.backend
    name = "" if backend is None else f" {backend.convert_ids_to_tokens(token_id)}"
    return f"{token_id}{name}"
