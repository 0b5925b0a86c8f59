"""Calling from Python what kernels call."""

from numba import config, njit


def from_python(kernel):
    """A function that only kernels call, wrapped for a test; itself where nothing is compiled."""
    if config.DISABLE_JIT:
        return kernel

    @njit(_nrt=False, error_model="numpy")
    def call(*arguments):
        return kernel(*arguments)

    return call
