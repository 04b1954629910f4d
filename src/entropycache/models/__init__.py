"""Model families, their transformer, and the checkpoints they load from. ``register`` adds a family
of your own.
"""

from entropycache.models.family import Family
from entropycache.models.registry import FAMILIES, register

__all__ = ["FAMILIES", "Family", "register"]
