"""A loopback Messages server that plays recorded replies: scripted replies, not a model.

It speaks the wire of the Messages API, its good and its bad days, so that the agent's whole path
(client, proxy, tools, gate, record) runs without a key. What it says follows from the request
alone: an interrupted run that is resumed is told the same again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kernelsmith.model import SCRIPTED_MODEL as MODEL

__all__ = ["LABEL", "MODEL", "running"]

LABEL = "scripted replies, not a model"


@contextmanager
def running(script: str = "minute") -> Iterator[str]:
    """Serves a script on a free loopback port while the block runs; yields the base URL.

    Args:
        script: "minute" (one task, quick), "night" (both tasks and every quirk of the wire) or
            "zero" (endless small edits, as fast as they can be served).

    Raises:
        InputError: no such script.
        InfrastructureError: the server does not come up.
    """
    from kernelsmith.loopback import serving
    from kernelsmith.rehearsal.server import application

    with serving(application(script)) as base_url:
        yield base_url
