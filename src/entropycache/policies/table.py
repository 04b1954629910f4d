"""The table of all policies: options, recomputed positions, cost of deciding, and source."""

from __future__ import annotations

import dataclasses
from typing import Any

from entropycache.policies import POLICIES
from entropycache.policies.base import About

HEAD = ("policy", "options and defaults", "recomputes", "deciding costs", "from")


def rows() -> list[tuple[str, str, str, str, str]]:
    """A row as in ``HEAD`` for each registered policy, in the order of registration."""
    return [_row(name, kind) for name, kind in POLICIES.items()]


def _row(name: str, kind: Any) -> tuple[str, str, str, str, str]:
    options = [_option(f) for f in dataclasses.fields(kind) if f.init]
    about = getattr(kind, "about", None) or About("", "", "")
    return name, ", ".join(options), about.recomputes, about.decision, about.paper


def _option(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}={field.default}"
    made = field.default_factory is not dataclasses.MISSING
    return f"{field.name}=…" if made else f"{field.name} (required)"


def markdown() -> str:
    """The table of all registered policies as Markdown."""
    lines = [HEAD, ("---",) * len(HEAD)]
    lines += [(f"`{name}`", f"`{opts}`" if opts else "", *rest) for name, opts, *rest in rows()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
