"""The stages of ``benchmarks/gpu_check.py``."""
