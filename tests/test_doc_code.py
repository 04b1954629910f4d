"""Every Python block of README and docs runs, those of a page in one namespace and in order.

What is far away has a stand-in. ``load`` gives the embedded model for every hub id, and
``transformers`` the Dream reference checkpoint. The server at 127.0.0.1:8000 is one in this
process, whose model has another name. lm_eval looks up no tasks of its own. Blocks run in an empty
folder.
"""

from __future__ import annotations

import json
import re
import sys
import types
from functools import partial

import openai
import pytest
import transformers
from safetensors.torch import load_file

import entropycache
from entropycache import models, policies
from entropycache.errors import OptionError
from tests.conftest import DATA
from tests.server.tools import serving
from tests.test_docs import NAMES, PAGES, ROOT, read


def blocks(page) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", read(page), re.S | re.M)


WITH_CODE = [name for name, page in zip(NAMES, PAGES, strict=True) if blocks(page)]


@pytest.fixture(autouse=True)
def _own_registries():
    registries = [policies.POLICIES, models.FAMILIES]
    before = [dict(registry) for registry in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)


@pytest.fixture
def near(monkeypatch, tmp_path, tiny):
    """Stand-ins for hub, server and task lists."""
    real = entropycache.load

    def load(model="tiny", **options):
        is_hub_id = re.fullmatch(r"[\w-]+/[\w.-]+", model)
        return tiny if model == "tiny" or is_hub_id else real(model, **options)

    monkeypatch.setattr(entropycache, "load", load)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", lambda *_, **__: Dream())
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


class Dream:
    """The reference checkpoint as ``transformers`` would hold it."""

    def __init__(self):
        config = json.loads((DATA / "dream" / "config.json").read_text())
        self.config = types.SimpleNamespace(to_dict=lambda: config)

    def state_dict(self):
        return load_file(DATA / "dream" / "model.safetensors")


def run(page: str, monkeypatch, model: str = "tiny") -> dict:
    module = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)  # where dataclasses look up their types
    for code in blocks(ROOT / page):
        code = code.replace('model="tiny"', f'model="{model}"')
        exec(compile(code, page, "exec"), vars(module))
    return vars(module)


ALONE = {"docs/evaluation.md", "docs/policies.md", "docs/server.md"}


@pytest.mark.parametrize("page", sorted({*WITH_CODE} - ALONE))
def test_the_code_of_a_page_runs(page, near, capsys):
    run(page, near)
    assert capsys.readouterr().out.strip()


def test_the_code_of_the_server_page_runs(near, capsys, tiny):
    with serving(tiny, defaults=entropycache.GenerationConfig(gen_length=40)) as running:
        real = openai.OpenAI
        near.setattr(
            openai, "OpenAI", lambda base_url, **o: real(base_url=f"{running.url}/v1", **o)
        )
        run("docs/server.md", near, model="small")
    expected = tiny.generate([{"role": "user", "content": "Solve for t: 3*t = 12"}]).text
    assert capsys.readouterr().out.replace("|", "") == expected


def test_the_code_of_the_evaluation_page_runs(near):
    import lm_eval
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_defaults=False)
    quick = partial(lm_eval.simple_evaluate, task_manager=manager, bootstrap_iters=0)
    near.setattr(lm_eval, "simple_evaluate", quick)
    assert "held-out:products" in run("docs/evaluation.md", near)["scores"]["results"]


def test_the_policy_shown_recomputes_everything_at_its_interval(near, engines):
    run("docs/policies.md", near)
    done = engines("llada").generate([1, 2], policy="periodic:interval=4", gen_length=16)
    assert done.full_passes == -(-done.forwards // 4)
    with pytest.raises(OptionError, match="registered already"):
        policies.register("periodic", policies.NoCache)
