"""Micro-benchmarks of real kernels, and the fit that turns measurements into a GPU profile."""
