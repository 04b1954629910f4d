"""Model families, the transformer they share, and loading of checkpoints.

``register`` adds a family of your own.
"""

from entropycache.models.family import Family
from entropycache.models.registry import FAMILIES, register

__all__ = ["FAMILIES", "Family", "register"]
