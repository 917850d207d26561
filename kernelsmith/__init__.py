"""kernelsmith: rewrites of Triton kernels that keep every bit on both paths."""

__version__ = "0.1.0.dev0"
