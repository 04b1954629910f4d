"""Outputs that are no plain file: devices, pipes, sockets and the standard output."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from entropycache.errors import OptionError
from entropycache.io.jsonl import JsonlWriter
from tests.io.tools import WRITE, refused


def test_a_full_device_ends_in_one_sentence():
    path = Path("/dev/full")
    with JsonlWriter(path, "--output F") as writer:
        assert writer.empty and list(writer.lines()) == [], "an endless device is not read"
        with pytest.raises(OptionError, match="^--output F: cannot be written: No space left"):
            writer.write({"n": 1})


def test_a_pipe_without_a_reader_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").endswith("cannot be written: no process reads from this pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_pipe_takes_more_than_it_can_hold_while_somebody_reads(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    held = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(held, True)
    with open(held, "rb") as source, JsonlWriter(tmp_path / "pipe") as writer:
        reader = threading.Thread(target=lambda: read.append(source.read()))
        reader.start()
        assert writer.empty and list(writer.lines()) == []
        writer.write({"text": "x" * 300_000})
        writer.write({"n": 2})
        writer.close()
        reader.join()
    assert [len(line) for line in read[0].splitlines()] == [300_012, 8]


def test_a_pipe_whose_reader_leaves_ends_in_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with JsonlWriter(tmp_path / "pipe") as writer:
        os.close(held)
        with pytest.raises(OptionError, match="Broken pipe"):
            writer.write({})


def test_what_is_no_file_is_refused_in_one_sentence(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert refused(tmp_path / "socket").endswith("it is a socket; give a file or a pipe")
    assert refused(tmp_path, "--output D") == "--output D: cannot be written: Is a directory"
    said = refused(tmp_path / "no" / "x")
    assert said == f"{tmp_path}/no/x: cannot be written: No such file or directory"


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_the_standard_output_is_a_stream_that_others_print_to_as_well(tmp_path, kind):
    code = """
print("before", flush=True)
with JsonlWriter(Path(sys.argv[1])) as writer:
    writer.write({"n": 1})
    writer.write({"n": 2})
    assert writer.to_stdout and writer.empty
print("after")
"""
    command = [sys.executable, "-c", WRITE + code, "/dev/stdout"]
    with (tmp_path / "out").open("wb") as target:
        stdout = target if kind == "file" else subprocess.PIPE
        done = subprocess.run(command, check=True, stdout=stdout)
    text = done.stdout if kind == "pipe" else (tmp_path / "out").read_bytes()
    assert text == b'before\n{"n": 1}\n{"n": 2}\nafter\n'
