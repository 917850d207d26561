"""The capture proxy: every call to a model passes through here and is recorded byte for byte."""

from kernelsmith.capture.app import OneRun, build, running
from kernelsmith.capture.upstream import Limits

__all__ = ["Limits", "OneRun", "build", "running"]
