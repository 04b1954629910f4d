"""Files of one JSON object a line: resumed, locked, and refused in one sentence."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from entropycache.errors import RecordError
from entropycache.io import jsonl
from entropycache.io.jsonl import JsonlWriter, read_finished_lines, read_lines
from tests.io.tools import WRITE, child, refused, values

HOLD = """
with JsonlWriter(Path(sys.argv[1])) as writer:
    writer.write({"from": "child"})
    print("open", flush=True)
    sys.stdin.read()
"""
TRY = """
try:
    JsonlWriter(Path(sys.argv[1])).close()
except OptionError as error:
    print(error, end="")
"""
LIMITED = """
import resource
writer = JsonlWriter(Path(sys.argv[1]))
writer.write({"n": 1})
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
try:
    writer.write({"text": "x" * 50})
except OptionError as error:
    print(error, Path(sys.argv[1]).stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
writer.write({"n": 2})
"""


@contextmanager
def holding(path):
    """Another process that has written a line to the file and holds it."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE + HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "open\n"
        yield process


def test_a_second_process_is_refused_at_once_and_leaves_the_file_alone(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 1}\n{"torn')
    with JsonlWriter(path) as writer:
        said = child(TRY, path)
        assert said.startswith(f"{path}: cannot be written: another run") and str(path) in said
        assert path.read_text() == '{"n": 1}\n{"torn'
        writer.write({"n": 2})
    assert values(path) == [{"n": 1}, {"n": 2}]
    assert child(TRY, path) == "", "the lock goes with the writer"


def test_a_lock_dies_with_its_process(tmp_path):
    path = tmp_path / "x.jsonl"
    with holding(path) as process:
        assert "another run" in refused(path, "--output x")
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    with JsonlWriter(path) as writer:
        assert list(writer.lines()) == [(1, {"from": "child"})]
        writer.write({"from": "here"})
    assert values(path) == [{"from": "child"}, {"from": "here"}]


def test_a_second_writer_of_the_same_process_is_refused_too(tmp_path):
    with JsonlWriter(tmp_path / "x") as writer:
        assert "another option of this one" in refused(tmp_path / "x")
        writer.write({})
    JsonlWriter(tmp_path / "x").close()


@pytest.mark.parametrize("torn", [b"{", b'{"text": "\xc3', b"x" * 200_000, b'{"whole": 1}'])
@pytest.mark.parametrize("before", [b"", b'{"n": 1}\n', b'{"n": 1}\n' * 20_000])
def test_an_unfinished_line_is_cut_off_by_the_first_write_and_not_before(tmp_path, before, torn):
    path = tmp_path / "x"
    path.write_bytes(before + torn)
    with JsonlWriter(path) as writer:
        assert [value for _, value in writer.lines()] == [{"n": 1}] * before.count(b"\n")
    assert path.read_bytes() == before + torn
    with JsonlWriter(path) as writer:
        writer.write({"n": 2})
        writer.write({"n": 3})
    assert path.read_bytes() == before + b'{"n": 2}\n{"n": 3}\n'


def test_a_line_is_in_the_file_once_it_is_written(tmp_path):
    with JsonlWriter(tmp_path / "x") as writer:
        for n in range(3):
            writer.write({"n": n})
            assert values(tmp_path / "x")[-1] == {"n": n}


def test_starting_over_replaces_the_lines_at_the_first_write_and_not_before(tmp_path):
    path = tmp_path / "x"
    path.write_text("precious\n")
    with JsonlWriter(path) as writer:
        writer.start_over()
    assert path.read_text() == "precious\n"
    with JsonlWriter(path) as writer:
        writer.start_over()
        writer.write({"n": 1})
        writer.write({"n": 2})
    assert path.read_text() == '{"n": 1}\n{"n": 2}\n'


def test_a_new_file_is_left_behind_only_with_a_line_in_it(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch()
    for path in (new, old):
        with JsonlWriter(path) as writer:
            assert writer.empty and path.exists()
    assert not new.exists() and old.exists()
    with JsonlWriter(new) as writer:
        writer.write({})
        assert not writer.empty
    assert new.exists()


def test_a_file_that_was_put_in_the_place_of_ours_is_not_removed(tmp_path):
    with JsonlWriter(tmp_path / "x"):
        (tmp_path / "x").unlink()
        (tmp_path / "x").touch()
    assert (tmp_path / "x").exists()


def test_a_file_removed_between_opening_and_locking_is_opened_again(tmp_path, monkeypatch):
    path, lock, seen = tmp_path / "x", jsonl._lock, []

    def late(file, at):
        if not seen:
            path.unlink()
        seen.append(file)
        return lock(file, at)

    monkeypatch.setattr(jsonl, "_lock", late)
    with JsonlWriter(path) as writer:
        writer.write({"n": 1})
    assert values(path) == [{"n": 1}] and len(seen) == 2


def test_a_file_system_without_locks_is_written_to_with_a_warning(tmp_path, monkeypatch):
    def none(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.warns(UserWarning, match="has no locks"), JsonlWriter(tmp_path / "x") as writer:
        writer.write({"n": 1})
    assert values(tmp_path / "x") == [{"n": 1}]


def test_half_a_surrogate_pair_comes_back_as_it_was(tmp_path):
    record = {"text": "é\ud83d \udc80 \u2028 \\ud83d 😀"}
    with JsonlWriter(tmp_path / "x") as writer:
        writer.write(record)
    assert values(tmp_path / "x") == [record]
    assert "é" in (tmp_path / "x").read_text(encoding="utf-8")


def test_a_line_that_did_not_fit_costs_no_other_line(tmp_path):
    said = child(LIMITED, tmp_path / "x")
    assert "cannot be written: File too large" in said and said.endswith(" 20\n")
    assert values(tmp_path / "x") == [{"n": 1}, {"n": 2}]


def test_reading_numbers_lines_by_newline_bytes_alone_and_skips_blank_ones(tmp_path):
    texts = ["a\u2028b", "c\x85d", "e\x0cf"]
    lines = [json.dumps(text, ensure_ascii=False) for text in texts]
    (tmp_path / "x").write_text("\n".join([lines[0], "", *lines[1:]]), encoding="utf-8")
    assert list(read_lines(tmp_path / "x")) == list(zip((1, 3, 4), texts, strict=True))
    assert list(read_finished_lines(tmp_path / "x")) == [(1, texts[0]), (3, texts[1])]


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b"1" * 5_000, b"\x00"])
def test_a_line_that_is_not_json_is_named_by_its_number(tmp_path, line):
    (tmp_path / "x").write_bytes(b"{}\n\n" + line + b"\n{}\n")
    for reader in (read_lines, read_finished_lines):
        with pytest.raises(RecordError, match="x, line 3: not JSON: "):
            list(reader(tmp_path / "x"))


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(RecordError, match="absent: cannot be read: No such file"):
        list(read_lines(tmp_path / "absent"))
    with pytest.raises(RecordError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))
