"""Serves an ASGI app on a free loopback port, in a thread of its own, while a block runs."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelsmith.errors import InfrastructureError

START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 30.0
# Longer than any client keeps an idle connection, so that none is closed under a new request.
KEEP_ALIVE_S = 120


@contextmanager
def serving(app: Any, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Yields ``http://host:port``; on the way out the server ends and open streams are cut.

    The server adds no header of its own. An app that returns before the end of its response cuts
    the connection without a clean end: that is how an app says that an answer is not whole.

    Raises:
        InfrastructureError: the port is taken, or the server does not come up.
    """
    import uvicorn

    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise InfrastructureError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="name another --port"
        ) from error
    # Accepted connections inherit it. asyncio sets it only where a socket names its protocol, which
    # create_server's do not; without it a small piece waits 40 ms for the one before it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_a_fault)
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])),
        name=f"loopback:{port}",
        daemon=True,
    )
    thread.start()
    try:
        _wait_until_up(server, thread, f"{host}:{port}")
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        # A daemon: an app that will not end must not keep the caller from ending.
        thread.join(END_TIMEOUT_S)
        listener.close()


def _is_a_fault(record: logging.LogRecord) -> bool:
    """Whether a line of the server is worth a person's time; streams that were cut are not."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    cuts = ("ASGI callable returned without completing", "Cancel %s running task")
    return not str(record.msg).startswith(cuts)


def _wait_until_up(server: Any, thread: threading.Thread, where: str) -> None:
    pause = threading.Event()
    for _ in range(int(START_TIMEOUT_S / 0.01)):
        if server.started:
            return
        if not thread.is_alive():
            break
        pause.wait(0.01)
    raise InfrastructureError(f"the server on {where} did not come up")
