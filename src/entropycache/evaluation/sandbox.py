"""The sandbox that executes generated programs.

Each runs in a process of its own, with limits on time, memory, files and processes, in a folder of
its own and without the parent's environment. The module knows programs and verdicts, not models or
tasks.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_GUARD = Path(__file__).with_name("sandbox_child.py")
# The order of sets must not decide a verdict, and the limit on processes refuses threads as well.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Limits:
    """Limits of one program.

    ``seconds`` bound the wall time, and about as many the processor's time. ``memory`` is the
    address space in bytes, ``file_size`` the size of each file in bytes.
    """

    seconds: float = 5.0
    memory: int = 2**30
    file_size: int = 2**20


@dataclass(frozen=True)
class Verdict:
    """The outcome of a program: ``passed`` if it ran to its last line, else with the ``reason``."""

    passed: bool
    reason: str


def run_program(code: str, limits: Limits | None = None) -> Verdict:
    """Execute Python source that tests itself; it passes by reaching its end without an exception.

    A program that exits early does not pass: the end is proven by a random number that the program
    is never shown. When the process has ended or ran out of time, its whole process group is
    killed.
    """
    limits = limits or Limits()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as errors,
    ):
        proof = secrets.token_hex(16).encode() + b"\n"
        reading, writing = os.pipe()
        try:
            timed_out = _execute(proof + code.encode(), limits, folder, errors, writing)
            passed = not timed_out and _written(reading) == proof
        finally:
            os.close(reading)
        if passed:
            return Verdict(True, "passed")
        if timed_out:
            return Verdict(False, f"not finished after {limits.seconds:g} seconds")
        return Verdict(False, _last_line(errors) or "ended before its last line")


def _execute(source: bytes, limits: Limits, folder: str, errors: BinaryIO, proof_fd: int) -> bool:
    """Run the guard over ``source``; true if it ran out of time and was stopped."""
    own = {
        "seconds": int(limits.seconds) + 1,
        "memory": limits.memory,
        "file_size": limits.file_size,
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", str(_GUARD), json.dumps(own), str(proof_fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
            env=_ENVIRONMENT,
            pass_fds=(proof_fd,),
            start_new_session=True,
        )
    finally:
        os.close(proof_fd)
    try:
        process.communicate(source, timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        return True
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin:
            process.stdin.close()
    return False


def _written(reading: int) -> bytes:
    """The bytes in the pipe now, at most 64.

    A blocking read would wait for any writer that the program left behind.
    """
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        return os.read(reading, 64)
    return b""


def _last_line(errors: BinaryIO) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 2000))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
