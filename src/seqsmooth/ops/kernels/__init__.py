"""Triton kernels, each the twin of plain torch elsewhere in `seqsmooth.ops`, which is its oracle.

Nothing here is imported before `seqsmooth.ops.dispatch` has said that it can run, so that a machine without Triton
pays nothing and misses nothing.

Two chains lead from the host to what a program does:

- Targets: `targets` launches `target_kernels`, which read the law by `sites`.
- Losses: `engine` calls `soft_cross_entropy`, which launches `rows` and `similarity` on what `sorted_target` has
  sorted; they read its parts by `target_parts`, and `finishing` sums and rescales.
"""
