"""The engine: it takes requests, runs packed passes over the K/V store, and gives steps and
completions.
"""
