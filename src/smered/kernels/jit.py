"""The one owner of every compilation option, and of where compiled code is kept."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

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


class LinkedCode(JITCodeLibrary):  # type: ignore[misc]  # numba is not typed
    """Code that is only ever linked into an entry, where all of it is optimised together."""

    def _optimize_final_module(self) -> None:
        """Leave it to the entry."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalize_dynamic_globals()
        self._finalized = True


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles what entries call, up to where it is linked into them."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags.no_compile = True
        code = LinkedCode(targetctx.codegen(), "part")
        super().__init__(typingctx, targetctx, code, args, return_type, flags, locals)

    def compile_extra(self, func):
        """Compile a function, and make it known under something Python cannot call by mistake."""
        result = super().compile_extra(func)
        name = {}.popitem  # each is another one; called with arguments it raises TypeError
        self.state.targetctx.insert_user_function(name, result.fndesc, [result.library])
        return result._replace(entry_point=name)


# Python never calls these, so they need neither wrappers nor machine code of their own. A wrapper
# takes every array of every named tuple apart. Without them compiling takes a third of the time.
UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}


def jit(function: Function) -> Function:
    """Compile a function that kernels call."""
    compiled: Function = njit(**OPTIONS, **UNWRAPPED)(function)
    return compiled


def jit_inline(function: Function) -> Function:
    """Compile a small helper so that LLVM always inlines it into the kernels that call it."""
    compiled: Function = njit(**OPTIONS, **UNWRAPPED, forceinline=True)(function)
    return compiled
