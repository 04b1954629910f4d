"""EntropyCache: engine and laboratory for fully bidirectional diffusion language models (LLaDA,
Dream).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entropycache.config.generation import GenerationConfig
    from entropycache.config.sampling import Confidence
    from entropycache.engine.engine import Engine, load
    from entropycache.engine.output import Completion, Frame
    from entropycache.errors import EntropyCacheError

_HOME = {
    "Completion": "engine.output",
    "Confidence": "config.sampling",
    "Engine": "engine.engine",
    "EntropyCacheError": "errors",
    "Frame": "engine.output",
    "GenerationConfig": "config.generation",
    "load": "engine.engine",
}

__all__ = [
    "Completion",
    "Confidence",
    "Engine",
    "EntropyCacheError",
    "Frame",
    "GenerationConfig",
    "load",
]


def __getattr__(name: str) -> Any:
    # Lazily, so that the command line can set the environment before torch loads, and --help stays
    # quick.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
