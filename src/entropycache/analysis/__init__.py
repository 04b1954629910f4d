"""Why the method works on a model: entropy against drift, how long commits stay volatile, what each
setting does, and which one to use.
"""
