"""The compiled inner loops: the only package that imports numba.

Kernels are scalar loops over flat arrays. They never allocate inside a loop and never raise.
Symbols and equation numbers are those of docs/mathematics.md.
"""
