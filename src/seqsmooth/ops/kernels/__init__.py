"""Triton kernels, each the twin of plain torch elsewhere in `seqsmooth.ops`, which is its oracle.

Nothing here is imported before `seqsmooth.ops.dispatch` has said that it can run, so that a machine without Triton
pays nothing and misses nothing.
"""
