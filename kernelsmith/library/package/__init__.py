"""Modules that every exported library carries, copied as they stand.

They need torch and triton; ``kernelsmith.devices.cpu`` is imported where tensors are on the CPU,
and nowhere else. Inside a library they lie in its own folder, so they import each other
relatively and nothing of the rest of kernelsmith.
"""
