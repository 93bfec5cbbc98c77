"""Options of Slurm's commands. What is not known here is refused by name: left out, it would mislead."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from allot.errors import NotFound, WrongUse

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Job

#: `7`, `0-3`, `0-9:2`.
_RANGE = r"\d+(?:-\d+(?::0*[1-9]\d*)?)?"
_INDICES = rf"\d+|\*|\[{_RANGE}(?:,{_RANGE})*(?:%\d+)?\]"
_TASK = re.compile(rf"(\d+)(?:_({_INDICES}))?(?:\+0)?(?P<step>\.batch|\.\d+)?")


class Options(argparse.ArgumentParser):
    """Parses as getopt(3) does, without abbreviations; raises WrongUse with the name of what is unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(prog=name, add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            names = ", ".join(word for word in unknown.split() if word.startswith("-")) or unknown
            raise WrongUse(f"{self.prog}: {names} is not known here; docs/slurm-users.md lists what is.")
        raise WrongUse(f"{self.prog}: {message}.")

    def parse(self, words: list[str]) -> Any:
        """Parse as getopt(3) does: a value may begin with a dash."""
        joined: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            takes = any(word in action.option_strings for action in self._actions if action.nargs is None)
            if takes and left and left[0].startswith("-") and left[0] != "-":
                word += ("=" if word.startswith("--") else "") + left.pop(0)
            joined.append(word)
        return self.parse_intermixed_args(joined)

    def switch(self, *names: str, dest: str = "") -> None:
        named: dict[str, Any] = {"dest": dest} if dest else {}
        self.add_argument(*names, action="store_true", **named)

    def value(self, *names: str, dest: str = "", default: str | None = None) -> None:
        named: dict[str, Any] = {"dest": dest} if dest else {}
        self.add_argument(*names, default=default, **named)

    def chosen(self, *names: str, dest: str, of: Callable[[str], Any] | None = None) -> None:
        """A list that chooses among jobs or nodes; None: it is not given.

        An empty one, as of a variable that is not set, would choose all of them, so it is refused.
        """

        def read(text: str) -> Any:
            if not listed(text):
                raise argparse.ArgumentTypeError("the list is empty")
            try:
                return (of or listed)(text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        self.add_argument(*names, dest=dest, type=read)

    def ignored(self, *names: str) -> None:
        """Switches that change nothing here."""
        for name in names:
            self.add_argument(name, action="store_true", dest="_ignored")


def listed(text: str | None) -> list[str]:
    """`a,b` -> a and b."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def listed_ids(text: str, command: str, *, with_steps: bool = False) -> list[tuple[int, str]]:
    """`12,13_4,14_[0-3]`: numbers of jobs, and the indices that are meant of an array; "" is all of it.

    A step such as `12.0` is not its job, except to those who only read.
    """
    found = []
    # Commas within brackets separate indices.
    for word in re.split(r",(?![^\[]*\])", text):
        match = _TASK.fullmatch(word.strip())
        if match is None or (match["step"] and not with_steps):
            raise WrongUse(f"{command}: {word!r} is not a job; expected numbers such as 12 or 12_3.")
        found.append((int(match[1]), (match[2] or "").strip("[]*")))
    return found


def indices_in(text: str) -> Callable[[int], bool]:
    """Return whether an index is among `0-3,7`; without a list all are."""
    if not text:
        return lambda index: True
    ranges = []
    for part in text.partition("%")[0].split(","):
        first, _, rest = part.partition("-")
        last, _, step = (rest or first).partition(":")
        ranges.append(range(int(first), int(last) + 1, int(step or 1)))
    return lambda index: any(index in each for each in ranges)


def jobs_of(client: Client, ids: list[tuple[int, str]]) -> list[Job]:
    """The jobs that are meant: an array's number means its tasks. Raises NotFound where there is none."""
    found: dict[int, Job] = {}
    for number, indices in ids:
        first = client.job(number)
        array = first["array"]
        if array is None or array["number"] != number:
            if indices:
                raise NotFound(f"Job {number} is no array, and has no task {indices}.", status=404)
            found[number] = first
            continue
        is_meant = indices_in(indices)
        tasks = [
            each for each in client.jobs(array=number) if each["array"] and is_meant(each["array"]["index"])
        ]
        if not tasks:
            raise NotFound(f"The array {number} has no task {indices}.", status=404)
        found |= {task["id"]: task for task in tasks}
    return sorted(found.values(), key=lambda job: job["id"])
