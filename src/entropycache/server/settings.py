"""The settings of a server. The module knows numbers and names, not how they are enforced."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import metadata

from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError


def version() -> str:
    """The installed version of this package."""
    return metadata.version("entropycache")


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server, checked when they are made.

    ``model`` is the name that requests use for the model, and ``defaults`` are the decoding options
    where a request gives none. At most ``max_sequences`` are decoded together, with canvases of at
    most ``max_positions`` positions in all; ``max_waiting`` more may wait. ``request_timeout`` is
    in seconds from a request's arrival. ``metrics_prefix`` starts the names of the metrics.

    Raises ``OptionError`` for a value that is not accepted.
    """

    model: str
    defaults: GenerationConfig = field(default_factory=GenerationConfig)
    max_sequences: int = 16
    max_positions: int = 32_768
    max_waiting: int = 128
    request_timeout: float = 600.0
    max_request_bytes: int = 2**20
    api_key: str | None = field(default=None, repr=False)
    cors_origins: tuple[str, ...] = ()
    metrics_prefix: str = "entropycache"

    def __post_init__(self) -> None:
        for name in ("max_sequences", "max_positions", "max_request_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if self.max_waiting < 0:
            raise OptionError(f"max_waiting must be 0 or more, not {self.max_waiting}")
        if not self.request_timeout > 0:
            raise OptionError(f"request_timeout must be above 0, not {self.request_timeout}")
        if self.api_key is not None and not (self.api_key and self.api_key.isascii()):
            raise OptionError("api_key must be a non-empty ASCII string")
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", self.metrics_prefix):
            raise OptionError(
                f"metrics_prefix must be letters, digits and underscores, not {self.metrics_prefix}"
            )

    @property
    def capacity(self) -> int:
        """The most sequences that the server holds at once, running and waiting."""
        return self.max_sequences + self.max_waiting
