"""The shape of the package: imports run one way, files and functions stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "entropycache"
MODULES = sorted(PACKAGE.rglob("*.py"))

ALLOWED = {
    # part of the package: the parts it may import
    "errors": set(),
    "plan": set(),
    "choices": set(),
    "machine": set(),
    "imports": {"errors"},
    "coercion": {"errors"},
    "config": {"choices", "coercion", "errors"},
    "specs": {"errors"},
    "lines": {"errors"},
    "sequence": {"plan"},
    "density": set(),
    "store": {"plan"},
    "models": {"plan", "errors", "config"},
    "policies": {"imports", "plan", "errors", "specs", "sequence", "density"},
    "strategies": {"choices", "plan", "errors", "config", "sequence", "density"},
    "scoring": {"plan", "errors", "choices"},
    "attention": set(),
    "packing": {"plan", "sequence", "store", "scoring", "attention", "policies"},
    "features": {"plan", "store", "attention", "packing", "models", "policies"},
    "runner": {
        *("plan", "sequence", "store", "scoring", "models", "attention", "packing", "features"),
        "policies",
    },
    "loop": {
        "plan",
        "errors",
        "sequence",
        "packing",
        "runner",
        "scoring",
        "policies",
        "strategies",
    },
    "text": {"plan", "errors", "models"},
    "ending": {"plan", "sequence", "text"},
    "options": {"config"},
    "completion": {"plan", "sequence", "loop", "ending"},
    "rules": {"config", "errors", "models", "policies", "strategies"},
    "engine": {
        "rules",
        *("plan", "errors", "config", "sequence", "models", "policies", "strategies", "scoring"),
        *("runner", "loop", "text", "ending", "completion"),
    },
    "problems": {"errors"},
    "observers": {
        "sequence",
        "ending",
        "completion",
        "lines",
        "plan",
        "errors",
        "config",
        "engine",
        "text",
        "problems",
    },
    "bench": {
        "imports",
        *("machine", "policies", "rules"),
        *("attention", "completion", "config", "ending", "engine", "errors", "features", "loop"),
        *("models", "packing", "plan", "problems", "records", "runner", "sequence", "specs"),
        "text",
    },
    "analysis": {
        "machine",
        *("bench", "completion", "config", "engine", "errors", "loop", "models", "plan"),
        *("policies", "sequence"),
    },
    "records": {"completion", "lines", "errors", "config", "engine", "policies"},
    "training": {
        "lines",
        "completion",
        "plan",
        "errors",
        "config",
        "engine",
        "text",
        "models",
        "problems",
    },
    "commands": {"completion", "errors", "config", "engine", "observers", "records", "policies"},
    "server": {
        "rules",
        *("completion", "config", "ending", "engine", "errors", "loop", "plan", "policies"),
        *("problems", "sequence", "text"),
    },
    "evaluation": {
        "rules",
        "machine",
        *("completion", "config", "engine", "errors", "lines", "policies", "problems", "text"),
        "training",
    },
    "cli": {
        "problems",
        "analysis",
        "bench",
        "options",
        "completion",
        "errors",
        "config",
        "engine",
        "observers",
        "records",
        "commands",
        "policies",
        "training",
        "server",
        "evaluation",
    },
}
KNOWS_THE_BASE_ONLY = {
    "loop": {"policies.base", "strategies.base"},
    "runner": {"policies.base"},
    "packing": {"policies.base"},
    "features": {"policies.base"},
}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


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
    if own == "__init__":
        return
    used = {part_of(name) for name in imports(path)} - {own}
    assert used <= ALLOWED[own], f"{name_of(path)} imports {sorted(used - ALLOWED[own])}"


def test_loop_and_runner_know_the_base_only():
    for own, allowed in KNOWS_THE_BASE_ONLY.items():
        for name in imports(PACKAGE / f"{own}.py"):
            for part in ("policies", "strategies"):
                if name.startswith(f"entropycache.{part}"):
                    assert name.removeprefix("entropycache.").startswith(tuple(allowed)), name


def test_the_check_can_fail(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from entropycache.engine import Engine\n")
    assert {part_of(name) for name in imports(path)} == {"engine"}


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


def _is_nested(tree: ast.Module, node: ast.AST) -> bool:
    return any(
        node in ast.walk(outer) and node is not outer
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef)
    ) or (isinstance(node, ast.FunctionDef) and node.name == "forward")
