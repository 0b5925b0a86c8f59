"""What can go wrong, said in a way that tells the user what to do."""

__all__ = ["ConfigError", "ConvergenceWarning", "DataError", "DataWarning", "RunError"]
__all__ += ["SmeredError"]


class SmeredError(Exception):
    """Base of every error that smered raises on purpose."""


class DataError(SmeredError, ValueError):
    """The input tables cannot be used as they are; the message names file, column and row."""


class ConfigError(SmeredError, ValueError):
    """A setting is impossible; the message names it and the values it may take."""


class DataWarning(UserWarning):
    """The input can be used, but probably does not mean what its owner expects."""


class RunError(SmeredError, RuntimeError):
    """A run folder cannot be used: in use, damaged, or not writable; the message names the file."""


class ConvergenceWarning(UserWarning):
    """The draws are too few, or the chains disagree: the answers cannot be relied on yet."""
