"""Decoding options: their types, their defaults and their checks."""
