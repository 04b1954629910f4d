"""README and docs: short, linked, and right about commands, tables and registries."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
import typer

from entropycache.cli import app
from entropycache.models import FAMILIES
from entropycache.policies import table as policy_table

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """A page without its blocks of code, in which brackets are no links."""
    return re.sub(r"^```.*?^```", "", read(page), flags=re.S | re.M)


def links(page: Path) -> list[str]:
    """Targets of a page's links and pictures within the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def dead_links(page: Path) -> list[str]:
    dead = []
    for target in links(page):
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    return dead


def test_the_first_page_is_short_and_both_set_up_commands_stand_on_top():
    lines = read(README).splitlines()
    assert len(lines) <= 150
    assert sum(line.startswith("$ pip install") for line in lines[:20]) == 2


@every_page
def test_a_page_is_of_a_length_to_read(page):
    assert len(read(page).splitlines()) <= 300


@every_page
def test_no_link_is_dead(page):
    assert not dead_links(page)


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A *first* heading\n[there](#a-first-heading) [gone](#second) [lost](lost.md#x)\n"
        "[outside](https://example.org)\n```\n[code](no.md)\n```\n"
    )
    assert dead_links(page) == ["#second", "lost.md#x"]


def test_every_page_is_reached_from_the_first_one():
    reached, new = set(), {README}
    while new:
        page = new.pop()
        reached.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        new |= {t for t in targets if t in PAGES} - reached
    assert reached == set(PAGES)


def commands(page: Path) -> list[str]:
    """Every command of ours that a page's console blocks show."""
    blocks = "\n".join(re.findall(r"^```console\n(.*?)^```", read(page), re.S | re.M))
    shown = re.findall(r"^\$ (.+)$", blocks.replace("\\\n", " "), re.M)
    parts = [part.strip() for line in shown for part in line.split("&&")]
    return [part for part in parts if part.startswith("entropycache ")]


@every_page
def test_every_command_shown_has_the_options_shown(page):
    root = typer.main.get_command(app)
    for line in commands(page):
        _, *words = shlex.split(line, comments=True)
        command = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert command is not root and asked <= known, line


def test_every_command_of_the_program_is_shown():
    shown = {line.split()[1] for page in PAGES for line in commands(page)}
    assert set(typer.main.get_command(app).commands) == shown


@every_page
def test_every_script_named_is_there(page):
    named = re.findall(r"python ((?:benchmarks|examples)/\w+\.py)", read(page))
    assert all((ROOT / name).exists() for name in named)


@pytest.fixture
def tables(monkeypatch):
    """The script that fills in the tables."""
    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location("tables", folder / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("speed_tables", None)


def test_the_tables_are_those_of_the_committed_results(tables):
    for file in tables.SECTIONS:
        assert tables.filled(file) == read(file)


def section(page: str, name: str) -> list[str]:
    """The lines of a page between the markers of a section."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", read(ROOT / page), re.S)
    return found[1].strip().splitlines()


def test_the_table_of_models_is_the_registry():
    _, _, *rows = section("docs/models.md", "models")
    assert rows == [f"| `{n}` | {', '.join(f.published)} |" for n, f in FAMILIES.items()]


def test_the_table_of_policies_is_the_registry():
    assert section("docs/policies.md", "policies") == policy_table.markdown().splitlines()


def test_the_architecture_page_lists_every_package():
    page = read(ROOT / "docs" / "architecture.md")
    table = page[page.index("## Packages") : page.index("## Direction of imports")]
    listed = {
        name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in cell.split(", ")
    }
    package = ROOT / "src" / "entropycache"
    found = {path.parent.name for path in package.glob("*/__init__.py")} | {"errors"}
    assert {name.strip("`") for name in listed} == found


def test_the_headline_tells_the_rules_from_the_cache(tables):
    """Between plain decoding and EntropyCache stands the same decoding without a cache."""
    of = tables.result("speedup")["rows"]
    told = section("README.md", "headline")
    shown = [line.split(" | ") for line in told if line.startswith("| ")][2:]
    assert [row[0] for row in shown] == [
        "| plain decoding",
        "| same rules, no cache",
        "| EntropyCache",
    ]
    assert [float(row[2]) for row in shown] == [
        of[name]["tokens_per_second"] for name in ("plain", "all but the cache", "all together")
    ]
    rules, cache = re.search(r"decoding ([\d.]+) times .*another ([\d.]+)", " ".join(told)).groups()
    both = of["all together"]["speed_up"]
    assert float(rules) * float(cache) == pytest.approx(both, rel=0.03)
