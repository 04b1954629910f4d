"""Decoding options: their types, defaults and checks."""
