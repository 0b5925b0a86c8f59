"""The one owner of every compilation option, and of where compiled code is kept."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
from numba import njit

__all__ = ["entry", "is_compiled", "jit", "jit_inline"]

Function = TypeVar("Function", bound=Callable[..., object])

# nogil: blocks run on threads. error_model="numpy": a
# division by zero is inf, not an exception. No fastmath: -inf must mean "impossible".
# _nrt=False: kernels allocate nothing, so arrays need no reference counting (measured: 3 times
# faster, since named tuples of arrays pass through every call).
OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "_nrt": False,
}


def cache_folder() -> str:
    """A folder for compiled kernels, named by their source.

    Numba looks only at the file a kernel stands in. Kernels are inlined into each other across
    files, so a change in any of them must find no compiled code.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for source in [*sorted(here.glob("*.py")), here.parent / "layout.py"]:
        digest.update(source.read_bytes())
    base = here / "__pycache__"
    if not os.access(base if base.exists() else here, os.W_OK):
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smered"
    return str(base / digest.hexdigest()[:16])


CACHE_FOLDER = cache_folder()


def is_compiled(kernel: str) -> bool:
    """Whether a compiled kernel was kept, or kernels are not compiled at all."""
    kept = Path(CACHE_FOLDER).rglob(f"*.{kernel}-*.nbi")
    return bool(numba.config.DISABLE_JIT) or any(kept)


def entry(function: Function) -> Function:
    """Compile a kernel that Python calls, keeping the result in our own cache folder.

    All that it calls is compiled into it, so that nothing else need be kept.
    """
    others, numba.config.CACHE_DIR = numba.config.CACHE_DIR, CACHE_FOLDER
    try:
        compiled: Function = njit(**OPTIONS, cache=True)(function)
    finally:
        numba.config.CACHE_DIR = others
    return compiled


# Python never calls these, so they need no wrappers. A wrapper takes every array of every named
# tuple apart: making none halves the time that compiling takes.
UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: Function) -> Function:
    """Compile a function that kernels call."""
    compiled: Function = njit(**OPTIONS, **UNWRAPPED)(function)
    return compiled


def jit_inline(function: Function) -> Function:
    """Compile a small helper so that LLVM always inlines it into the kernels that call it."""
    compiled: Function = njit(**OPTIONS, **UNWRAPPED, forceinline=True)(function)
    return compiled
