"""The child's side of the sandbox.

It limits itself, executes one program, and proves that the program's last line was reached. It is
started by path and uses the standard library alone. It guards against what models write by mistake
or imitation, not against an attacker who knows it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

REFUSED = (
    *("os.fork", "os.posix_spawn", "os.exec", "os.spawn", "os.system", "os.kill"),
    *("pty.", "subprocess.", "socket.", "resource."),
)
"""Prefixes of the names of audit events that no program may cause."""
CHANGES = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.chown", "os.utime"),
)
"""Events that change the path in their first argument."""


def limit(seconds: int, memory: int, file_size: int) -> None:
    """Set limits that nothing in this process can raise: seconds, and bytes of memory and a file.

    The limit on processes does not hold for the superuser; the audit hook refuses them everywhere.
    """
    for kind, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def refusal(folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that refuses processes, sockets, and writing outside ``folder``."""

    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or real.startswith(folder + os.sep)

    def writes(mode: Any, flags: Any) -> bool:
        if isinstance(mode, str):
            return any(letter in mode for letter in "wax+")
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(REFUSED):
            raise PermissionError(f"{event} is not allowed here")
        if event == "open":
            path, mode, flags = arguments
            changes = writes(mode, flags)
        else:
            path, changes = (arguments or (0,))[0], event in CHANGES
        if changes and not inside(path):
            raise PermissionError(f"{path!r} is outside the folder of this program")

    return hook


def main() -> None:
    limits, proof_fd = json.loads(sys.argv[1]), int(sys.argv[2])
    proof = sys.stdin.buffer.readline()
    code = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    limit(**limits)
    sys.addaudithook(refusal(os.path.realpath(os.getcwd())))
    # Not __main__: what a program would do when started is not what is tested.
    exec(compile(code, "program", "exec"), {"__name__": "program"})
    os.write(proof_fd, proof)
    os._exit(0)


if __name__ == "__main__":
    main()
