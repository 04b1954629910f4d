"""The journal of an evaluation: resumed without its torn line, and one process to a rank's file."""

from __future__ import annotations

import json

import pytest

from entropycache.errors import OptionError, RecordError
from entropycache.evaluation.journal import Journal, digest


def test_a_torn_last_line_is_gone_once_a_result_is_added(tmp_path):
    path = tmp_path / "e.partial.jsonl"
    path.write_text('{"key": "k", "v": 1}\n{"key": "l", "v"')
    with Journal(tmp_path / "e.json") as journal:
        assert journal.get("k") == {"v": 1} and journal.get("l") is None
        assert path.read_text().endswith('"v"'), "not before"
        journal.add("m", {"v": 3})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["k", "m"]
    with Journal(tmp_path / "e.json") as journal:
        assert (journal.get("k"), journal.get("m")) == ({"v": 1}, {"v": 3})


def test_the_torn_line_of_another_rank_is_left_to_that_rank(tmp_path):
    path = tmp_path / "e.partial.1.jsonl"
    path.write_text('{"key": "k", "v": 1}\n{"key": "l"')
    with Journal(tmp_path / "e.json") as journal:
        assert journal.get("k") == {"v": 1} and journal.get("l") is None
        journal.add("m", {"v": 3})
    assert path.read_text().endswith('{"key": "l"')


def test_a_second_journal_is_refused_the_file_of_the_same_rank_only(tmp_path):
    output = tmp_path / "e.json"
    with Journal(output) as journal:
        journal.add("k", {"v": 1})
        with pytest.raises(OptionError) as found:
            Journal(output)
        said = str(found.value)
        assert said.startswith(f"--output {output}: cannot be written: another run")
        assert said.endswith("is writing to " + str(tmp_path / "e.partial.jsonl"))
        with Journal(output, rank=1) as other:
            assert other.get("k") == {"v": 1}
    with Journal(output) as journal:
        assert journal.get("k") == {"v": 1}


def test_a_journal_that_cannot_be_read_is_left_as_it_is_and_unlocked(tmp_path):
    path = tmp_path / "e.partial.jsonl"
    path.write_text("[1]\n{")
    for _ in range(2):
        with pytest.raises(RecordError, match="line 1: not a line of an evaluation's journal"):
            Journal(tmp_path / "e.json")
        assert path.read_text() == "[1]\n{"


def test_a_journal_without_a_result_leaves_no_file(tmp_path):
    with Journal(tmp_path / "e.json"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_journal_whose_folder_is_missing_is_refused_under_the_options_name(tmp_path):
    output = tmp_path / "no" / "e.json"
    with pytest.raises(OptionError) as found:
        Journal(output)
    assert str(found.value) == f"--output {output}: cannot be written: No such file or directory"


def test_a_journal_of_other_settings_is_not_used(tmp_path):
    assert digest("a", {"x": 1}) == digest("a", {"x": 1}) != digest("a", {"x": 2})
    with Journal(tmp_path / "e.json") as journal, Journal(tmp_path / "e.json", rank=1) as other:
        journal.add("k", {"v": 1})
        other.add("l", {"v": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "e.partial.1.jsonl",
        "e.partial.jsonl",
    ]
    with Journal(tmp_path / "e.json", rank=1) as journal:
        assert (journal.get("k"), journal.get("l"), journal.get("m")) == ({"v": 1}, {"v": 2}, None)
        journal.remove()
    assert not list(tmp_path.iterdir())
    (tmp_path / "e.partial.jsonl").write_text("[1]\n")
    with pytest.raises(RecordError, match="not a line of an evaluation's journal"):
        Journal(tmp_path / "e.json")
