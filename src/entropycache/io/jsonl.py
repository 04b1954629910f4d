"""Files of one JSON value a line: read line by line, and written by one process at a time.

Lines end at a newline byte and nowhere else: a text may hold other characters that break lines. The
module knows files and JSON, not what the values mean.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from entropycache.errors import OptionError, RecordError

_STDOUT = 1
_BLOCK = 1 << 16


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number, counted from 1, and the parsed value of every line that is not blank.

    Raises ``RecordError`` where the file cannot be read, and with the number of a line that is not
    JSON.
    """
    return (_parsed(path, number, line) for number, line in _lines(path) if line.strip())


def read_finished_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield what ``read_lines`` does, except for a last line without a newline.

    Such a line was cut short by the end of the process that wrote it.
    """
    finished = ((number, line) for number, line in _lines(path) if line.endswith(b"\n"))
    return (_parsed(path, number, line) for number, line in finished if line.strip())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            yield from enumerate(file, 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(path: Path, number: int, line: bytes) -> tuple[int, Any]:
    try:
        return number, json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}, line {number}: not JSON: {error}") from error


class JsonlWriter:
    """Appends JSON objects to a file, each given to the operating system before ``write`` returns.

    A regular file is locked until ``close`` or the end of the process, whichever way it ends: any
    other writer of it is refused. Opening changes nothing. The lines that are there stay, unless
    ``start_over`` is called, and the first ``write`` cuts off a last line without a newline. A file
    that was made here and not written to is removed by ``close``.

    A pipe, a character device and this process's own standard output are *streams*: they are
    written to without a lock, and hold no earlier lines.

    Opening and writing raise ``OptionError`` where they fail, a message that starts with ``name``,
    which is the path where none is given. Lines that were written before stay.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self._name = name or str(path)
        self._start_over = False
        with self._explained():
            self._created = not path.exists()
            self._file = self._open_and_lock()
        self.to_stdout = _is_stdout(_status(self._file))
        self._stream = _is_stream(self._file)
        # True while the file may end in a part of a line; a look at its end tells.
        self._may_be_torn = not self._stream

    @property
    def empty(self) -> bool:
        """Is true for a file of no bytes and for a stream."""
        return self._stream or _status(self._file).st_size == 0

    def lines(self) -> Iterator[tuple[int, Any]]:
        """Yield the finished lines of the file as ``read_finished_lines`` does; a stream has none.

        Raises ``RecordError`` as that does.
        """
        return iter(()) if self._stream else read_finished_lines(self.path)

    def start_over(self) -> None:
        """Let the first ``write`` replace all lines of the file."""
        self._start_over = True

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one object as a line."""
        text = json.dumps(record, ensure_ascii=False) + "\n"
        # Half of a surrogate pair has no UTF-8. Python's replacement for it, \udc80, is JSON's too.
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        with self._explained():
            if self._may_be_torn:
                self._file.truncate(0 if self._start_over else _finished_length(self.path))
            self._start_over, self._may_be_torn = False, not self._stream
            while rest:
                rest = rest[self._file.write(rest) :]
            self._may_be_torn = False

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        if self._file.closed:
            return
        with self._explained(), self._file:
            # Still locked: nobody else can have written to it.
            if self._created and not self._stream and self.empty and _is_at(self._file, self.path):
                self.path.unlink()

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open_and_lock(self) -> FileIO:
        while True:
            file = _open(self.path)
            try:
                # Between opening and locking, another writer may have removed the file.
                if not _lock(file, self.path) or _is_at(file, self.path):
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = _reason(self.path, error)
            raise OptionError(f"{self._name}: cannot be written: {reason}") from error


def _open(path: Path) -> FileIO:
    """Open for appending, without waiting for a pipe's reader."""
    if path.exists() and _is_stdout(path.stat()):
        # Opened anew, a file would have a place of its own to write at: what is printed would land
        # on top of the lines.
        return FileIO(os.dup(_STDOUT), "w")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
    file = FileIO(os.open(path, flags, 0o666), "w")
    os.set_blocking(file.fileno(), True)
    return file


def _lock(file: FileIO, path: Path) -> bool:
    """Lock a regular file and say whether there is a lock.

    Raises ``BlockingIOError`` where another writer has it.
    """
    if _is_stream(file):
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        warnings.warn(f"{path}: its file system has no locks; run one process only", stacklevel=4)
        return False
    return True


def _status(file: FileIO) -> os.stat_result:
    return os.fstat(file.fileno())


def _is_stream(file: FileIO) -> bool:
    return _is_stdout(_status(file)) or not stat.S_ISREG(_status(file).st_mode)


def _is_stdout(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(_STDOUT))
    except OSError:  # closed
        return False


def _is_at(file: FileIO, path: Path) -> bool:
    return path.exists() and os.path.samestat(_status(file), path.stat())


def _finished_length(path: Path) -> int:
    """Return the number of bytes up to and with the last newline."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                return start + found + 1
            end = start
    return 0


def _reason(path: Path, error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return f"another run, or another option of this one, is writing to {path}"
    if error.errno == errno.ENXIO and path.is_fifo():
        return "no process reads from this pipe"
    if error.errno == errno.ENXIO and path.is_socket():
        return "it is a socket; give a file or a pipe"
    return error.strerror or str(error)
