"""Intervals: those of published tables, and of no width around a constant ratio."""

from __future__ import annotations

from entropycache.observers.statistics import ratio_interval, wilson


def test_intervals():
    low, high = wilson(50, 100)
    assert (low, high) == (40.4, 59.6), "as tables of the Wilson interval give it"
    assert wilson(0, 10)[0] == 0 and wilson(10, 10)[1] == 100
    over = [(10, 1.0), (20, 2.0), (30, 3.0)]
    assert ratio_interval(over, [(t, 2 * s) for t, s in over]) == (2, 2)
