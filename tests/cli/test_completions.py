"""The output of ``generate --input``: whose it is, what it may be, and where words go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from entropycache.cli import app
from entropycache.errors import EntropyCacheError
from entropycache.io.jsonl import JsonlWriter, read_lines
from tests.conftest import DATA

FAST = [
    *("generate", "--model", str(DATA / "llada"), "--device", "cpu", "--gen-length", "8"),
    *("--block-length", "8", "--tokens-per-step", "8", "--policy", "none"),
]


@pytest.fixture
def source(tmp_path):
    """A file of three prompts."""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"id": {n}, "prompt_ids": [{n}]}}\n' for n in (1, 2, 3)))
    return path


def refused(source, output, *more):
    arguments = [*FAST, "--input", str(source), "--output", str(output), *more]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, EntropyCacheError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


def ids(path):
    return [line["id"] for _, line in read_lines(path)]


def test_an_output_in_use_is_refused_and_stays_as_it_is(source, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_bytes(b'{"id": ')
    with JsonlWriter(output):
        said = refused(source, output)
        assert said.startswith(f"--output {output}: cannot be written: another run")
    assert output.read_bytes() == b'{"id": '


def test_a_trace_in_use_is_refused_before_anything_is_decoded(source, tmp_path):
    with JsonlWriter(tmp_path / "t"):
        said = refused(source, tmp_path / "out.jsonl", "--trace", str(tmp_path / "t"))
    assert said.startswith(f"{tmp_path / 't'}: cannot be written: another run")
    assert not (tmp_path / "out.jsonl").exists()


def test_one_file_as_output_and_trace_is_refused(source, tmp_path):
    path = tmp_path / "out.jsonl"
    assert "another option of this one" in refused(source, path, "--trace", str(path))
    assert not path.exists()


def test_a_torn_line_is_dropped_when_a_record_is_written(source, tmp_path):
    output = tmp_path / "out.jsonl"
    arguments = [*FAST, "--input", str(source), "--output", str(output)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(lines[0] + lines[1][:-1])
    assert "2 prompts decoded, 1 were there" in CliRunner().invoke(app, arguments).output
    assert ids(output) == [1, 2, 3]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "no process reads from this pipe"),
        (lambda path: path.symlink_to("/dev/full"), "No space left on device"),
    ],
)
def test_an_output_that_takes_no_line_ends_in_one_sentence(source, tmp_path, make, said):
    make(tmp_path / "out")
    found = refused(source, tmp_path / "out")
    assert found == f"--output {tmp_path / 'out'}: cannot be written: {said}"


def test_lines_on_the_standard_output_stand_there_alone(source, tmp_path):
    options = [*FAST, "--input", str(source), "--output", "/dev/stdout"]
    command = [sys.executable, "-m", "entropycache", *options]
    with (tmp_path / "out").open("wb") as target:
        done = subprocess.run(command, check=True, stdout=target, stderr=subprocess.PIPE)
    assert ids(tmp_path / "out") == [1, 2, 3]
    assert b"3 prompts decoded, 0 were there already" in done.stderr
