"""The shape of the package: imports run one way, files and functions stay small."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "entropycache"
MODULES = sorted(PACKAGE.rglob("*.py"))

FLOORS = (
    ("errors",),
    ("core",),
    ("config",),
    ("io",),
    ("models", "policies", "strategies"),
    ("engine",),
    ("observers",),
    ("bench", "analysis", "evaluation", "server", "training"),
    ("cli",),
    ("__init__", "__main__"),
)
"""What a part may import stands on a floor below its own; parts of one floor never each other."""

INSIDE_ENGINE = (
    ("build", "kv_store", "output", "scoring", "stopping", "timing"),
    ("request",),
    ("batch",),
    ("feature_pass",),
    ("runner",),
    ("loop",),
    ("scheduler",),
    ("engine",),
)
"""The same for the modules of the engine."""

STILL_LONG = {
    "tests/engine/test_engine.py",
    "tests/policies/test_rivals.py",
    "tests/server/test_requests.py",
    "tests/server/test_scheduling.py",
    "tests/strategies/test_strategies.py",
}
"""Files that are yet to be split. No file is ever added."""


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def floor(part: str) -> int:
    return next(i for i, parts in enumerate(FLOORS) if part in parts)


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} if node.module != "entropycache" else set()
            if node.module.startswith("entropycache") and node.module.count(".") < 2:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("entropycache.")}


def name_of(path: Path) -> str:
    return ".".join(("entropycache", *path.relative_to(PACKAGE).with_suffix("").parts))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path):
    own = part_of(name_of(path))
    used = {part_of(name) for name in imports(path)} - {own}
    wrong = {part for part in used if floor(part) >= floor(own)}
    assert not wrong, f"{name_of(path)} imports {sorted(wrong)}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "engine").glob("[!_]*.py")), ids=name_of)
def test_inside_the_engine_imports_run_one_way(path):
    def level(name: str) -> int:
        return next(i for i, names in enumerate(INSIDE_ENGINE) if name in names)

    prefix = "entropycache.engine."
    used = {n.removeprefix(prefix).split(".")[0] for n in imports(path) if n.startswith(prefix)}
    wrong = {name for name in used if level(name) >= level(path.stem)}
    assert not wrong, f"{path.stem} imports {sorted(wrong)}"


@pytest.mark.parametrize("name", ("loop", "runner", "batch", "feature_pass"))
def test_what_decodes_knows_no_policy_or_strategy_by_name(name):
    for module in imports(PACKAGE / "engine" / f"{name}.py"):
        part, _, rest = module.removeprefix("entropycache.").partition(".")
        assert part not in ("policies", "strategies") or rest.startswith("base"), module


def test_the_check_can_fail(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from entropycache.engine.engine import Engine\n")
    assert {part_of(name) for name in imports(path)} == {"engine"}
    assert floor("engine") > floor("models") == floor("policies")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_stay_small_and_documented(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") <= 250, "a file this long wants to be two"
    if tree.body:
        assert ast.get_docstring(tree), "a module says what it is"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            inner = "test" in path.parts or _is_nested(tree, node)
            assert inner or ast.get_docstring(node) or node.name == "main", f"{node.name}"
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 46, f"{node.name} is too long"


@pytest.mark.parametrize("folder", ("src", "tests", "benchmarks", "examples"))
def test_no_file_has_more_than_250_lines(folder):
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / folder).rglob("*.py")}
    assert files, f"{folder} holds no module"
    long = {name for name, path in files.items() if path.read_text().count("\n") > 250}
    assert long <= STILL_LONG, "a file this long wants to be two"


def test_nine_of_ten_functions_have_at_most_25_lines():
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert statistics.quantiles(lengths, n=10)[-1] <= 25


def _is_nested(tree: ast.Module, node: ast.AST) -> bool:
    return any(
        node in ast.walk(outer) and node is not outer
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef)
    ) or (isinstance(node, ast.FunctionDef) and node.name == "forward")


def test_the_policy_of_the_project_stays_readable_at_a_glance():
    """``policies/entropy.py``: at most 40 lines of code, without docstrings and comments."""
    text = (PACKAGE / "policies" / "entropy.py").read_text()
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    code = [line for i, line in lines if line and line[0] != "#" and i not in strings]
    assert len(code) <= 40
