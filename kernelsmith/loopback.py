"""Serves an ASGI app on a free loopback port, in a thread of its own, while a block runs."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelsmith.errors import InfrastructureError

START_TIMEOUT_S = 20.0


@contextmanager
def serving(app: Any, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Yields ``http://host:port``; on the way out the server ends and open streams are cut.

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
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1
    )
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
        thread.join()
        listener.close()


def _wait_until_up(server: Any, thread: threading.Thread, where: str) -> None:
    pause = threading.Event()
    for _ in range(int(START_TIMEOUT_S / 0.01)):
        if server.started:
            return
        if not thread.is_alive():
            break
        pause.wait(0.01)
    raise InfrastructureError(f"the server on {where} did not come up")
