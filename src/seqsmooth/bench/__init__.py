"""The benchmark: every loss beside its peers, on the same tensors, in one process."""
