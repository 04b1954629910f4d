"""The vocabulary of decoding: the canvas of a request, and the plan, scores and commit of a step.

A leaf: nothing here imports another part of the package.
"""
