"""Every exception that a user can meet, all of them below ``EntropyCacheError``::

    EntropyCacheError
    ├── OptionError           an option or a spec is unknown, out of range, or at odds with others
    ├── PromptError           a prompt cannot be decoded: mask token inside, wrong type, too long
    ├── CheckpointError       a model folder, hub id, config or weight file cannot be used
    ├── RecordError           a line of an input file, or a trace, cannot be read
    └── NonFiniteLogitsError  the network returned NaN or infinite logits for one request

``OptionError``, ``PromptError`` and ``RecordError`` are also a ``ValueError``, and
``NonFiniteLogitsError`` is also an ``ArithmeticError``.
"""

from __future__ import annotations


class EntropyCacheError(Exception):
    """Base class of all errors here.

    The command line prints the message as one line and exits with status 2.
    """


class OptionError(EntropyCacheError, ValueError):
    """An option or spec is unknown, out of range, or at odds with another option."""


class PromptError(EntropyCacheError, ValueError):
    """A prompt cannot be decoded."""


class CheckpointError(EntropyCacheError):
    """A model folder, hub id, config or weight file cannot be used."""


class RecordError(EntropyCacheError, ValueError):
    """A line of an input file, or a trace, cannot be read."""


class NonFiniteLogitsError(EntropyCacheError, ArithmeticError):
    """The network returned NaN or infinite logits; the message names the request and the step."""
