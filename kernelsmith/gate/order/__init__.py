"""The order in which kernels sum, found by probing through their plans."""
