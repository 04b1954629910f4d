"""Devices by name."""

from __future__ import annotations

import torch

from entropycache.errors import OptionError


def pick_device(name: str) -> torch.device:
    """A device by name, ``auto`` being CUDA where there is one; ``OptionError`` where it cannot be
    used.
    """
    try:
        target = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
        )
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}"
        ) from error
    return target
