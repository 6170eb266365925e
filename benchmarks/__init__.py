"""Measurements of speed, memory and size: a package of the repository, run as `python -m benchmarks`."""
