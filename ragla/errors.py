"""Every error a user can meet, with the exit code the command line gives it.

::

    RaglaError            1   anything that went wrong and is the user's to see
    ├── UsageError        2   a flag, a profile key or a value that makes no sense
    ├── IndexUnusable     3   no index, or one that cannot be read as it is
    ├── NothingRelevant   4   the documents do not answer the question
    ├── ModelUnavailable  5   a model that is neither here nor to be had
    └── IndexLocked       6   another process is writing the index

A message says what happened and where; ``hint`` is the command or change that mends it. Only
``ragla.failure`` turns these into text and exit codes.
"""


class RaglaError(Exception):
    """Something went wrong; the message is one line, ``hint`` says what mends it."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(RaglaError):
    """A flag, a profile key or a value that makes no sense."""

    exit_code = 2


class IndexUnusable(RaglaError):
    """There is no index, or it cannot be used with these settings."""

    exit_code = 3


class NothingRelevant(RaglaError):
    """The documents do not answer the question."""

    exit_code = 4


class ModelUnavailable(RaglaError):
    """A model is neither on this machine nor to be had."""

    exit_code = 5


class IndexLocked(RaglaError):
    """Another process is writing the index."""

    exit_code = 6
