"""Measuring: configurations side by side in one run, what each ingredient gives, what a step costs.

Decides nothing and decodes nothing by itself: it runs the engine and reads clocks.
"""
