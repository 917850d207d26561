"""On-policy integrity: probes for any trainer or harness, and the audit of what they wrote.

    from kernelsmith import onpolicy

    probe = onpolicy.record("sampler.jsonl", side="sampler", dtype="float32", weights="step 0")
    probe.turn("prompt-17/0", logprobs, tokens=ids, mask=mask, index=0, payloads=[raw_bytes])

    onpolicy.check(sampler_logprobs, trainer_logprobs, mask=mask)     # in the first step

then ``kernelsmith audit sampler.jsonl trainer.jsonl``. Nothing here imports torch.
"""

from kernelsmith.onpolicy.checking import check
from kernelsmith.onpolicy.dump import Recorder, payload_bytes, record

__all__ = ["Recorder", "check", "payload_bytes", "record"]
