"""Evaluation through lm-evaluation-harness.

Importing this package registers the model ``entropycache`` with the harness.
"""

from __future__ import annotations

from entropycache.evaluation.lm import EntropyCacheLM

__all__ = ["EntropyCacheLM"]
