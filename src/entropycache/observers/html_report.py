"""The report of an analysis: one self-contained HTML page with pictures, tables and numbers."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; background: white; border-radius: 6px; }
table { border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto; }
td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
td:first-child, th:first-child { text-align: left; }
tr.marked { font-weight: 600; }
code, pre { font-size: 13px; overflow-x: auto; }
"""


@dataclass
class Section:
    """A heading, paragraphs, pictures by caption, and a table whose marked rows stand out."""

    title: str
    paragraphs: Sequence[str] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    marked: frozenset[int] = frozenset()


def page(title: str, facts: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """The whole page."""
    told = "".join(
        f"<tr><td>{html.escape(key)}</td><td>{html.escape(str(value))}</td></tr>"
        for key, value in facts.items()
    )
    body = "".join(_section(section) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>{body}<h2>Settings</h2><table>{told}</table></body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    parts += [f"<p>{html.escape(text)}</p>" for text in section.paragraphs]
    for caption, picture in section.pictures.items():
        data = base64.b64encode(picture).decode()
        alt = html.escape(caption, quote=True)
        parts.append(
            f'<figure><img alt="{alt}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
    if section.rows:
        parts.append(_table(section))
    return "".join(parts)


def _table(section: Section) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in section.head)
    lines = []
    for i, row in enumerate(section.rows):
        cells = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row)
        lines.append(f"<tr{' class=marked' if i in section.marked else ''}>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
