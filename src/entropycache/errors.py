"""Every exception that a user can meet.

EntropyCacheError ├── OptionError          an option or a spec that is unknown, out of range, or
does not fit its companions ├── PromptError          a prompt that cannot be decoded (mask token
inside, wrong type, too long) ├── CheckpointError      a model folder, hub id, config or weight file
that cannot be used ├── RecordError          a line of an input file, or a trace, that cannot be
read └── NonFiniteLogitsError the network returned NaN or infinite logits for one request
"""

from __future__ import annotations


class EntropyCacheError(Exception):
    """Base of all; the command line prints its message as one line and exits with status 2."""


class OptionError(EntropyCacheError, ValueError):
    """An option or spec that is unknown, out of range, or does not fit its companions."""


class PromptError(EntropyCacheError, ValueError):
    """A prompt that cannot be decoded."""


class CheckpointError(EntropyCacheError):
    """A model folder, hub id, config or weight file that cannot be used."""


class RecordError(EntropyCacheError, ValueError):
    """A line of an input file, or a trace, that cannot be read."""


class NonFiniteLogitsError(EntropyCacheError, ArithmeticError):
    """The network returned NaN or infinite logits; the message names the request and the step."""
