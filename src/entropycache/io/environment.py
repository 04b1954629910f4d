"""What numbers were measured on and by: processor, threads, versions, command."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("entropycache", "torch", "transformers", "numpy")


def command(*program: str) -> str:
    """The command as it is typed, quoted where it has to be; ``program`` is ``entropycache`` unless
    given.
    """
    return shlex.join([*(program or ("entropycache",)), *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """Processor, device, cores and the threads that are used."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": next(names, platform.processor()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "gpu": str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None,
    }


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Versions of Python, of what computes, and of ``more`` packages."""
    return {"python": platform.python_version()} | {p: version(p) for p in (*PACKAGES, *more)}
