"""Benchmarks: configurations side by side in one run, the gain of each ingredient, the cost of a
step.

This package decides nothing and decodes nothing by itself: it runs the engine and reads clocks.
"""
