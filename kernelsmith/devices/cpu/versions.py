"""Which Triton releases this device works with."""

import importlib.metadata

from kernelsmith.errors import MissingError

TESTED_TRITON = ("3.6.0", "3.7.1", "3.9.0")


def require_triton(version: str | None = None) -> str:
    """Returns the release number of the installed Triton.

    TTIR's printed form and the plugin interface are not stable between releases, so a release
    that the conformance set was not run on is refused rather than trusted.

    Args:
        version: the version to check instead of the installed one.

    Raises:
        MissingError: Triton is not installed, or is not one of :data:`TESTED_TRITON`.
    """
    if version is None:
        try:
            version = importlib.metadata.version("triton")
        except importlib.metadata.PackageNotFoundError:
            raise MissingError(
                "Triton is not installed", hint=f"pip install triton=={TESTED_TRITON[1]}"
            ) from None
    release = version.split("+", maxsplit=1)[0]
    if release not in TESTED_TRITON:
        raise MissingError(
            f"Triton {version} is not supported: tested are {', '.join(TESTED_TRITON)}",
            hint=f"pip install triton=={TESTED_TRITON[1]}",
        )
    return release
