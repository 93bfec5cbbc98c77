"""How sbatch and srun spell their options: long and short names, switches, and options with a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from allot.errors import WrongUse

#: An option by its long name, and its value where one is written with it.
Spelled = tuple[str, str | None]


@dataclass(frozen=True)
class Grammar:
    """The options of a command. `values` take one, and `optional` take one behind `=` only."""

    letters: Mapping[str, str]
    switches: frozenset[str]
    optional: frozenset[str]
    values: frozenset[str]

    @property
    def known(self) -> frozenset[str]:
        return self.switches | self.optional | self.values

    def spelled(self, word: str) -> list[Spelled]:
        """Return the options in `--name=value`, `-N2`, or `-HW`. Raises WrongUse for `--hold=no`."""
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if equals and name in self.switches:
                raise WrongUse(f"{word}: --{name} takes no value.")
            return [(name, value if equals else None)]
        found: list[Spelled] = []
        letters = word[1:]
        while letters:
            name, letters = self.letters.get(letters[0], letters[0]), letters[1:]
            if name in self.switches:
                found.append((name, None))
            else:
                # As in getopt(3), the rest of the word is the value.
                found.append((name, letters.removeprefix("=") or None))
                break
        return found


_LETTERS = {
    "J": "job-name", "t": "time", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition",
    "A": "account", "q": "qos", "C": "constraint", "o": "output", "e": "error", "a": "array",
    "d": "dependency", "b": "begin", "D": "chdir", "G": "gpus", "w": "nodelist", "x": "exclude", "H": "hold",
    "W": "wait", "Q": "quiet", "v": "verbose", "s": "oversubscribe", "O": "overcommit", "L": "licenses",
    "M": "clusters",
}  # fmt: skip
_SWITCHES = frozenset({
    "hold", "parsable", "wait", "quiet", "verbose", "test-only", "requeue", "no-requeue", "oversubscribe",
    "overcommit", "label", "unbuffered", "upload", "no-upload",
})  # fmt: skip
SBATCH = Grammar(
    letters=_LETTERS,
    switches=_SWITCHES,
    optional=frozenset({"exclusive", "kill-on-bad-exit", "nice"}),
    values=frozenset({
        *({*_LETTERS.values()} - _SWITCHES),
        "mail-type", "mail-user", "mem", "mem-per-cpu", "mem-per-gpu", "gres", "gpus-per-node",
        "gpus-per-task", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-gpu", "gpu-bind", "cpu-bind",
        "export", "open-mode", "signal", "time-min", "wrap", "comment", "reservation",
        "kill-on-invalid-dep", "mpi", "hint", "tmp", "mincpus", "distribution", "priority",
        "threads-per-core",
    }),
)  # fmt: skip
#: `srun -W 60` is how long other tasks may run on once one has ended.
SRUN = replace(
    SBATCH,
    letters={**_LETTERS, "l": "label", "u": "unbuffered", "K": "kill-on-bad-exit"},
    switches=_SWITCHES - {"wait", "parsable", "test-only"},
    values=SBATCH.values - {"wrap"} | {"wait"},
)
