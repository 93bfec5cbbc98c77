"""Job specifications from files and flags.

The server checks specifications and says what is wrong with them; here they are only read, and flags
are put over them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allot.errors import WrongUse

if TYPE_CHECKING:
    from allot.client import JobSpec

#: The server takes requests of at most 1 MB, so a larger file cannot be submitted.
LARGEST_FILE_BYTES = 1_000_000
#: Fields of a task that may stand at the top level of a specification with one task.
SHORTHAND = ("command", "gpus", "gpu_model", "resources", "sensitivity", "replicas", "env")
LONGEST_NAME = 63
#: What to do when the file of a job is missing.
_NO_JOB = "To run a command put it after two dashes: `allot submit [flags] -- COMMAND ...`."


@dataclass(frozen=True, slots=True)
class Source:
    """One specification and where it came from, for messages: `train.yaml` or `train.yaml, document 3`."""

    where: str
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Over:
    """What is put over a specification: values by their places in it ("topology.level"), and a command."""

    values: Mapping[str, Any]
    command: tuple[str, ...] = ()
    #: The places, below "tasks", that only a job of one task can have, with the flags that name them.
    of_one_task: Mapping[str, str] = field(default_factory=dict)

    def over(self, source: Source) -> JobSpec:
        """The specification with these values over it: tables and lists are added to, all else replaced."""
        spec: JobSpec = dict(source.spec)
        for_tasks: dict[tuple[str, ...], Any] = {}
        for place, value in self.values.items():
            first, *rest = place.split(".")
            if first == "tasks":
                for_tasks[tuple(rest)] = value
            else:
                _put(spec, (first, *rest), value, source.where)
        if for_tasks or self.command:
            self._over_tasks(spec, for_tasks, source.where)
        return spec

    def _over_tasks(self, spec: JobSpec, values: Mapping[tuple[str, ...], Any], where: str) -> None:
        tasks = _tasks(spec, where)
        of_one = [flag for place, flag in self.of_one_task.items() if place in self.values]
        of_one += ["a command after --"] if self.command else []
        if len(tasks) > 1 and of_one:
            raise WrongUse(
                f"{where} has {len(tasks)} tasks, so it is not clear which one "
                f"{' and '.join(of_one)} would be for. Change the file instead."
            )
        for task in tasks:
            for path, value in values.items():
                _put(task, path, value, where)
            if self.command:
                task["command"] = list(self.command)
        spec["tasks"] = tasks


def _put(spec: dict[str, Any], path: tuple[str, ...], value: Any, where: str) -> None:
    """Set one value; a table or list that is there already is copied and added to."""
    *outer, last = path
    for name in outer:
        spec[name] = _mapping(spec, name, where)
        spec = spec[name]
    if isinstance(value, dict):
        value = {**_mapping(spec, last, where), **value}
    spec[last] = value


def _tasks(spec: JobSpec, where: str) -> list[dict[str, Any]]:
    """The tasks, copied; the shorthand of one task at the top level is moved into one."""
    if "tasks" in spec:
        tasks = spec["tasks"]
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise WrongUse(f"{where}: tasks has to be a list of mappings.")
        return [dict(task) for task in tasks]
    task: dict[str, Any] = {"name": "main"}
    task |= {key: spec.pop(key) for key in SHORTHAND if key in spec}
    for short, full in (("gpus", "gpu"), ("gpu_model", "gpu_model")):
        if short in task:
            task["resources"] = {**_mapping(task, "resources", where), full: task.pop(short)}
    return [task]


def _mapping(parent: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WrongUse(f"{where}: {key} has to be a mapping.")
    return dict(value)


def name_from(command: Sequence[str]) -> str:
    """A name for a job that was given none: that of its script, else of its program."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    name = re.sub(r"[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")
    return name[:LONGEST_NAME].rstrip("-") or "job"


def pairs(words: Sequence[str], flag: str) -> dict[str, str]:
    """`K=V` words as a mapping."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise WrongUse(f"{flag} {word!r} is not of the form KEY=VALUE.")
        found[key] = value
    return found


def words(text: str) -> tuple[str, ...]:
    """The words of `end,failure`; "none" gives no words."""
    return () if text == "none" else tuple(word.strip() for word in text.split(",") if word.strip())


def read_sources(paths: Sequence[str]) -> list[Source]:
    """Every specification in these files, in order. `-` is standard input."""
    return [source for path in paths for source in _read(path)]


def read_document(path: str, kind: str) -> dict[str, Any]:
    """The one document of a file that is not a job; `kind` states in words what it has to be."""
    where = "standard input" if path == "-" else path
    documents = _documents(
        _text(path, where, "Give the name of one that exists, or - for standard input."), where
    )
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise WrongUse(f"{where} is not {kind}.")
    return documents[0]


def _read(path: str) -> list[Source]:
    where = "standard input" if path == "-" else path
    documents = _documents(_text(path, where, _NO_JOB), where)
    if not documents:
        raise WrongUse(f"{where} is empty. Expected a job specification in YAML or JSON.")
    sources = []
    for number, document in enumerate(documents, start=1):
        place = where if len(documents) == 1 else f"{where}, document {number}"
        if not isinstance(document, dict):
            raise WrongUse(
                f"{place} is not a job specification. Expected fields such as name, gpus and command."
            )
        sources.append(Source(place, document))
    return sources


def read_text(path: str, *, most_bytes: int) -> str:
    """The text of a file that is not a specification."""
    where = "standard input" if path == "-" else path
    return _text(path, where, "Give the name of one that exists, or - for standard input.", most_bytes)


def _text(path: str, where: str, hint: str, most_bytes: int = LARGEST_FILE_BYTES) -> str:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise WrongUse(f"There is no file {path!r}. {hint}") from None
    except OSError as error:
        raise WrongUse(f"Cannot read {where}: {error.strerror}.") from None
    if len(content) > most_bytes:
        raise WrongUse(f"{where} is larger than {most_bytes:,} bytes; split it.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise WrongUse(f"{where} is not text in UTF-8.") from None


def _documents(text: str, where: str) -> list[Any]:
    """The YAML or JSON documents of a text; a list at the top counts as several."""
    import yaml

    from allot import yaml_text

    try:
        documents = [document for document in yaml_text.documents(text) if document is not None]
        if len(documents) == 1 and isinstance(documents[0], list):
            documents = documents[0]
        plain = json.loads(json.dumps(documents, default=str, allow_nan=False))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        is_yaml = "" if isinstance(error, yaml_text.Refused) else " is not YAML"
        raise WrongUse(f"{where}{place}{is_yaml}: {error.problem or error.context}.") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise WrongUse(f"{where} is not YAML or JSON: {error}.") from None
    return list(plain)
