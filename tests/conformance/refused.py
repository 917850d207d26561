"""What the device refuses, with the words it refuses with. A case listed here must raise; when
its op lands the listing fails, and goes."""

# Case id (or how ids begin): a part of the message.
REFUSED: dict[str, str] = {
    "conversions/to/fp8": "not supported in this architecture",
    "conversions/to/fp32-fp8": "not supported in this architecture",
    "conversions/to/fp16-fp8": "not supported in this architecture",
    "conversions/to/bf16-fp8": "not supported in this architecture",
    "conversions/bitcast/uint8-fp8e5": "not supported in this architecture",
    "conversions/bitcast/fp8e4nv": "not supported in this architecture",
    "math_functions/erf/fp64": "op math.erf on float64",
    "math_functions/erf_small/fp64": "op math.erf on float64",
    "math_functions/libdevice": "cannot convert None",
    "dots/dot_fp8": "not supported in this architecture",
}


def refusal(case_id: str) -> str:
    """The words, or "" for what must run."""
    return next((words for start, words in REFUSED.items() if case_id.startswith(start)), "")
