"""What the commands share: the application, and the options that say which model to load."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Annotated

import typer

from entropycache.errors import OptionError

if TYPE_CHECKING:
    from entropycache.engine.engine import Engine

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Model = Annotated[str, typer.Option(help="tiny (the embedded model), a folder, or a hub id")]
Dtype = Annotated[str, typer.Option(help="auto, bfloat16, float32 or float64")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")]


def import_policy(spec: str | None) -> None:
    """Take the class of a spec ``module:Class`` from its module; other specs are left alone."""
    if spec and ":" in spec:
        from entropycache.policies import registry

        registry.import_policy(spec)


def listed(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def load_engine(model: str, dtype: str, device: str) -> Engine:
    """Load a model, importing torch only now."""
    from entropycache.engine.engine import load

    return load(model, dtype=dtype, device=device)


def needs_extra(extra: str, what: str, *modules: str) -> None:
    """Refuse a command whose packages are not installed, naming the extra that brings them."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(f"{what} needs {', '.join(missing)}; pip install 'entropycache[{extra}]'")
