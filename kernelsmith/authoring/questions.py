"""What a draft has to know and how it is asked: of flags, of a person, or left open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kernelsmith.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing to know. ``flag``: how a command says it; ``proposal``: what would be taken;
    ``why``: where the proposal comes from, "" when it is a mere guess that a person must see."""

    flag: str
    text: str
    proposal: str
    why: str


class Asker(Protocol):
    """Asks a person. Returns the text of the answer; raises typer's Abort on end of input."""

    def __call__(self, question: Question, trouble: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Where answers come from: ``given`` by flags, then the person if there is one, then
    proposals that something in the file backs. What is assumed and what is open is noted.

    The lists grow while a draft is made; the inquiry lives as long as one command.
    """

    given: Mapping[str, str]
    asker: Asker | None = None
    assumed: list[str] = field(default_factory=list)
    open: list[Question] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def answer(
        self, flags: Sequence[str], question: Question, read: Callable[[str], T]
    ) -> T | None:
        """The answer, read; None when it stays open.

        Args:
            flags: keys of ``given`` that answer it, the closest first.
            question: what to ask otherwise.
            read: reads the text; an InputError of it asks a person again.

        Raises:
            InputError: a flag's text does not read.
        """
        for flag in flags:
            if flag in self.given:
                self.used.add(flag)
                try:
                    return read(self.given[flag])
                except InputError as error:
                    raise InputError(f"{flag}: {error.message}", hint=error.hint) from error
        if self.asker is not None:
            return self._asked(question, read)
        if question.why:
            self.assumed.append(f"{question.flag}{question.proposal}  ({question.why})")
            return read(question.proposal)
        self.open.append(question)
        return None

    def _asked(self, question: Question, read: Callable[[str], T]) -> T:
        trouble = ""
        while True:
            assert self.asker is not None
            try:
                return read(self.asker(question, trouble))
            except InputError as error:
                trouble = f"{error.message}; {error.hint}"

    def require_all(self) -> None:
        """Ends a draft that lacks answers, or that was given answers to nothing.

        Raises:
            InputError: flags that nothing asked for, or questions that are open.
        """
        if self.open:
            lines = ", ".join(f"{each.flag}… ({each.text})" for each in self.open)
            words = " ".join(f"{each.flag}{each.proposal}" for each in self.open)
            raise InputError(
                f"nothing in the file says: {lines}",
                hint=f"say it with flags, for example {words}; on a terminal you are asked",
            )
        unused = [flag for flag in self.given if flag not in self.used]
        if unused:
            raise InputError(
                f"{unused[0]} fits nothing in the file",
                hint="the answers of arguments and outputs are --arg ENTRY:NAME=… and "
                "--output ENTRY:NAME=…",
            )
