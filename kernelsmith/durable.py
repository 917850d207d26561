"""What makes a new name on a disk safe."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Names that were made, moved or removed in a folder are so after a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
