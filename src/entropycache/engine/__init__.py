"""The engine: requests in, packed forward passes over the K/V store, steps and completions out."""
