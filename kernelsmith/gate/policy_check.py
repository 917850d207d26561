"""policy: is the source within the language of candidates? On the host, by AST, nothing runs."""

from kernelsmith.gate import policy
from kernelsmith.gate.subject import Outcome
from kernelsmith.model import Candidate, Task

SHOWN = 5


def check(task: Task, candidate: Candidate) -> Outcome:
    """Names each construct outside the language and what may be used instead."""
    found = policy.check(candidate.source, task.entries)
    if not found:
        return Outcome()
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Outcome(
        status="POLICY",
        message=f"{found[0]}{more}",
        evidence={"violations": [str(one) for one in found[:SHOWN]], "count": len(found)},
    )
