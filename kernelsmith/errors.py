"""The exception tree: everything that is not a candidate's own failure.

A candidate that fails is a *value* (``Verdict.status``). What is raised is about the user's
input, the machine, or evidence that cannot be trusted::

    KernelsmithError                exit
    ├── InputError                  2     the user can fix the input
    │   ├── TaskError                     a task file, seed or case is wrong
    │   └── DatabaseError                 locked, foreign, corrupt, newer schema, read-only
    ├── MissingError                3     a device, sandbox, key or package is not there
    ├── InfrastructureError         4     the machine failed, not the candidate
    │   ├── SandboxError                  a worker could not start, or died on its own
    │   │   └── WorkerDeathError              … in the middle of a job: whose fault is not known yet
    │   ├── GpuError                      the CUDA driver refused a call
    │   └── StorageError                  disk full, read-only
    ├── EvidenceError               5     the gate's evidence cannot be trusted
    └── OffPolicyError              1     a trainer's first step has a ratio that is not 1
    CompileError                    -     a kernel the device does not lower; a worker turns it
                                          into the candidate's status ``COMPILE``
    DeviceAssertError               -     a kernel's own ``device_assert`` failed

Each message says what is wrong, on which id, actual against expected; ``hint`` says how to mend it.
"""

from typing import Any


class KernelsmithError(Exception):
    """Root of the tree. ``exit_code`` is what the command line returns."""

    exit_code = 4

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """From one process to another: what was given by name does not stand in ``args``."""
        return _again, (type(self), self.args, self.__dict__)


def _again(
    kind: type[KernelsmithError], args: tuple[Any, ...], state: dict[str, Any]
) -> KernelsmithError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(KernelsmithError):
    """The user can fix the input."""

    exit_code = 2


class TaskError(InputError):
    """A task file, its seed or one of its cases is wrong."""


class DatabaseError(InputError):
    """The database is locked, foreign, corrupt, newer than this version, or read-only."""


class MissingError(KernelsmithError):
    """Something needed is not on this machine."""

    exit_code = 3


class InfrastructureError(KernelsmithError):
    """The machine failed; no candidate is to blame."""

    exit_code = 4


class SandboxError(InfrastructureError):
    """A worker could not start or died outside a job."""


class WorkerDeathError(SandboxError):
    """A worker died or hung in the middle of a job, by what the job held or by the machine: one
    death does not tell which. ``where``: the call, class or run it was at, as far as known."""

    def __init__(self, message: str, *, where: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.where = where


class GpuError(InfrastructureError):
    """The CUDA driver refused a call. ``code`` is its number; ``kernel_fault``: a kernel did it to
    itself (an address it must not touch, a trap), which a worker turns into ``CRASH``."""

    def __init__(
        self, message: str, *, code: int, kernel_fault: bool, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.kernel_fault = kernel_fault


class StorageError(InfrastructureError):
    """A write failed: disk full, read-only file system."""


class EvidenceError(KernelsmithError):
    """The gate's own evidence cannot be trusted (self-proof failed, check did not run)."""

    exit_code = 5


class OffPolicyError(KernelsmithError):
    """Sampler and trainer give a token other log-probs, where they had to be bit-equal."""

    exit_code = 1


class CompileError(KernelsmithError):
    """A kernel this device cannot lower. Names the op and the source line."""

    def __init__(self, message: str, *, op: str, line: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.op = op
        self.line = line


class DeviceAssertError(KernelsmithError):
    """A kernel's ``device_assert`` failed. Names the program and the source line."""

    exit_code = 1

    def __init__(
        self, message: str, *, line: str, program: tuple[int, ...], hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.program = program
