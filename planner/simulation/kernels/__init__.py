"""Compiled kernels: one event loop in the numba subset."""
