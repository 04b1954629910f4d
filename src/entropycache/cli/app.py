"""The parts that commands share: the application, and the options for the model to load.

Nothing here imports torch at the top: ``--help`` must be quick.
"""

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
    """Register the policy of a spec ``module:Class`` from its module; other specs are left alone.

    Raises ``OptionError`` if it cannot be imported or is no policy.
    """
    if spec and ":" in spec:
        from entropycache.policies import registry

        registry.import_policy(spec)


def listed(text: str) -> tuple[str, ...]:
    """The names in a text with commas between, without blanks and empty names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def load_engine(model: str, dtype: str, device: str) -> Engine:
    """The engine of a model; torch is imported only here.

    Raises ``CheckpointError`` for a model that cannot be loaded, and ``OptionError`` for another
    dtype or device.
    """
    from entropycache.engine.engine import load

    return load(model, dtype=dtype, device=device)


def needs_extra(extra: str, what: str, *modules: str) -> None:
    """Refuse a command whose packages are not installed, naming the extra that brings them.

    ``what`` needs all of ``modules``. Raises ``OptionError``.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(f"{what} needs {', '.join(missing)}; pip install 'entropycache[{extra}]'")
