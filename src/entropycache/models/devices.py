"""Devices by name."""

from __future__ import annotations

import torch

from entropycache.errors import OptionError


def pick_device(name: str) -> torch.device:
    """The device of a name; ``auto`` is CUDA where there is one, else the CPU.

    Raises ``OptionError`` where the device cannot be used.
    """
    try:
        target = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
        )
        # A name alone proves nothing: a first tensor shows that the device is there.
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}"
        ) from error
    return target
