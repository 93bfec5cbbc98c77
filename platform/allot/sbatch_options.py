"""What each option of sbatch(1) means in a job's specification."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from allot.beginning import begin_at
from allot.errors import WrongUse

MAIL = {
    "BEGIN": ["start"],
    "END": ["end"],
    "FAIL": ["failure"],
    "REQUEUE": ["preemption"],
    "ALL": ["start", "end", "failure", "preemption"],
    "NONE": [],
}
#: What each kind of a dependency waits for; aftercorr and the like are not known here.
DEPENDENCIES = {"after": "started", "afterany": "ended", "afterok": "succeeded", "afternotok": "failed"}
UNITS = {"": "MiB", "K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB"}
#: A model of GPUs. Slurm reads `2k` as a number.
_MODEL = r"(?!\d+[kKmMgGtTpP]?(?![\w.-]))[\w.-]+"
_GPUS = re.compile(rf"(?:(?P<model>{_MODEL}):)?(?P<count>\d+)|(?P<alone>{_MODEL})")
LONGEST_GRACE_SECONDS = 600
#: What the usual names of a QOS mean here; sites name them as they like.
QOS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(("guaranteed", "normal"), ("guarantee", "guaranteed")),
    **dict.fromkeys(
        ("opportunistic", "preemptible", "preempt", "scavenger", "scavenge", "standby", "spot", "free"),
        ("guarantee", "opportunistic"),
    ),
    **dict.fromkeys(("high", "urgent", "express"), ("priority", 50)),
    "low": ("priority", -50),
}


@dataclass
class Asked:
    """What a job, or a component of one, asks for in numbers; how they belong together is seen at the end."""

    sizes: dict[str, int] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Site:
    """What names of another cluster mean here: partitions as virtual clusters, and accounts as tenants."""

    partitions: Mapping[str, str] = field(default_factory=dict)
    #: The user's tenants.
    tenants: Collection[str] = ()


@dataclass(frozen=True)
class Given:
    """An option with its value, and what it is written into."""

    option: str
    value: str
    spec: dict[str, Any]
    asked: Asked
    site: Site

    def whole_number(self, text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            among = "" if text == self.value else f": {text}"
            raise WrongUse(f"--{self.option}={self.value}{among} is not a whole number from 1.")
        return int(text)


#: How an option was taken, as in `Note.how`, and as what.
Said = tuple[str, str]
DONE, NEARLY, LEFT_OUT = "translated", "approximated", "not possible"


def said_of(given: Given) -> Said:
    """Write what an option asks for into the specification. Raises WrongUse for a wrong value."""
    meaning = _MEANINGS.get(given.option)
    return meaning(given) if meaning else (LEFT_OUT, "left out")


def seconds_of(text: str) -> int | None:
    """Slurm's times: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. None: no limit."""
    if text.upper() in {"0", "UNLIMITED", "INFINITE"}:
        return None
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        raise WrongUse(f"time {text!r} is not a time; expected minutes, H:M:S or D-H:M:S.")
    days, a, b, c = (int(part or 0) for part in match.groups())
    if match[1]:
        return days * 86400 + a * 3600 + b * 60 + c
    return a * 3600 + b * 60 + c if match[4] else a * 60 + b


def _job_name(given: Given) -> Said:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", given.value)[:63].strip("._-") or given.spec["name"]
    given.spec["name"] = name
    return DONE if name == given.value else NEARLY, f"name: {name}"


def _time(given: Given) -> Said:
    limit = seconds_of(given.value)
    if not limit:
        return DONE, "no time limit"
    given.spec["time_limit"] = limit
    return DONE, f"time_limit: {limit} seconds"


def _size(given: Given) -> Said:
    # A range of nodes begins with the fewest.
    fewest = given.value.split("-")[0] if given.option == "nodes" else given.value
    count = given.asked.sizes[given.option] = given.whole_number(fewest)
    return NEARLY if "-" in given.value else DONE, f"{count}, in replicas and resources"


def _gres(given: Given) -> Said:
    """Take the GPUs of a list such as `gpu:a100:2,nvme:1`."""
    kinds = [re.fullmatch(r"(?:gres[:/])?gpu(?::(.*))?", entry) for entry in given.value.split(",")]
    found = [match[1] or "1" for match in kinds if match]
    if not found:
        return LEFT_OUT, "gpu is the only generic resource known here"
    if len(found) > 1:
        raise WrongUse(f"--gres={given.value} names GPUs twice; all GPUs of a job are of one model.")
    how, what = _gpus(given, found[0], "gpus-per-node")
    return (how, what) if len(kinds) == 1 else (NEARLY, f"{what}; no other resource is known here")


def _gpus(given: Given, text: str | None = None, size: str = "") -> Said:
    """Take `[MODEL:]COUNT`, or a model for one GPU."""
    match = _GPUS.fullmatch(given.value if text is None else text)
    if match is None:
        raise WrongUse(
            f"--{given.option}={given.value} is not a number of GPUs of one model; expected [MODEL:]NUMBER."
        )
    count, model = int(match["count"] or 1), match["model"] or match["alone"]
    given.asked.models += [model] if model and count else []
    given.asked.sizes[size or given.option] = count
    return DONE, f"{count} GPU{'' if count == 1 else 's'}" + (f" of model {model}" if model else "")


def _memory(given: Given) -> Said:
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", given.value.upper())
    if not match:
        raise WrongUse(f"--{given.option}={given.value} is not a size; expected a number with K, M, G or T.")
    given.asked.memory[given.option] = f"{match[1]}{UNITS[match[2]]}"
    return DONE, "resources.memory of each replica"


def _partition(given: Given) -> Said:
    if given.value not in given.site.partitions:
        return LEFT_OUT, f"say which virtual cluster it is: --map-partition {given.value}=NAME"
    name = given.spec["virtual_cluster"] = given.site.partitions[given.value]
    return DONE, f"virtual_cluster: {name}"


def _signal(given: Given) -> Said:
    match = re.fullmatch(r"(?:[RB]+:)?\w+(?:@(\d+))?", given.value)
    if not match:
        raise WrongUse(f"--signal={given.value} is not of the form B:USR1@60.")
    grace = min(int(match[1] or 60), LONGEST_GRACE_SECONDS)
    given.spec["checkpoint"] = {"grace_seconds": grace}
    return NEARLY, f"checkpoint.grace_seconds: {grace}; the signal is SIGTERM"


def _mail_type(given: Given) -> Said:
    kinds = [MAIL.get(kind.strip().upper()) for kind in given.value.split(",")]
    given.spec["notify"] = {"email": list(dict.fromkeys(k for known in kinds for k in known or []))}
    return NEARLY if None in kinds else DONE, "notify.email, to your own address"


def _no_requeue(given: Given) -> Said:
    given.spec["retry"] = {"max_attempts": 1}
    return NEARLY, "retry.max_attempts: 1"


def _requeue(given: Given) -> Said:
    given.spec.pop("retry", None)
    return NEARLY, "retry.max_attempts: as usual, 3"


def _array(given: Given) -> Said:
    given.spec["array"] = {"indices": given.value}
    return DONE, f"array: {given.value}"


def _kill_on_invalid_dep(given: Given) -> Said:
    then = given.spec["on_unmet"] = "wait" if given.value == "no" else "cancel"
    return DONE, f"on_unmet: {then}"


def _begin(given: Given) -> Said:
    begin = given.spec["begin"] = begin_at(given.value)
    return DONE, f"begin: {begin}"


def _reservation(given: Given) -> Said:
    given.spec["reservation"] = given.value
    return DONE, f"reservation: {given.value}"


def _export(given: Given) -> Said:
    pairs = [part.partition("=") for part in given.value.split(",") if "=" in part]
    env = given.spec["env"] = {name.strip(): text for name, _, text in pairs}
    if not env:
        return LEFT_OUT, "left out: the variables of your shell stay here"
    return NEARLY, f"variables {', '.join(env)}; those of your shell stay here"


def _account(given: Given) -> Said:
    tenants = given.site.tenants
    if given.value in tenants:
        given.spec["tenant"] = given.value
        return DONE, f"tenant: {given.value}"
    mine = f"you have {', '.join(sorted(tenants))}" if tenants else "you are in none"
    return LEFT_OUT, f"ignored: it is not a tenant of yours ({mine}); choose one with --tenant"


def _qos(given: Given) -> Said:
    if given.value.lower() not in QOS:
        return LEFT_OUT, f"ignored: it means no tier or priority here, as {', '.join(QOS)} do"
    name, chosen = QOS[given.value.lower()]
    given.spec[name] = chosen
    return NEARLY, f"{name}: {chosen}"


def qos_fields(value: str) -> Mapping[str, Any]:
    """Return the field of the specification that a QOS means. Raises WrongUse for other names."""
    if value.lower() not in QOS:
        raise WrongUse(f"--qos {value}: it means no tier or priority here; expected one of {', '.join(QOS)}.")
    return dict([QOS[value.lower()]])


def _hold(given: Given) -> Said:
    given.spec["hold"] = True
    return DONE, "on hold until `allot release`"


def _constraint(given: Given) -> Said:
    if not re.fullmatch(r"[A-Za-z0-9._-]+(\|[A-Za-z0-9._-]+)*", given.value):
        return LEFT_OUT, "left out"
    models = given.value.split("|")
    given.asked.models += models
    return NEARLY, "taken as GPU models: " + ", ".join(models)


def take_image(value: str, spec: dict[str, Any]) -> Said:
    """Take an image that Pyxis names: as enroot does, `docker://USER@REGISTRY#IMAGE:TAG`, or as a file."""
    name = value.removeprefix("docker://").replace("#", "/", 1)
    if name.startswith(("/", ".", "~", "$")) or name.endswith(".sqsh") or "@" in name.partition("/")[0]:
        return LEFT_OUT, "left out: expected an image of a registry, without a user; no file"
    spec["image"] = name
    return DONE, f"image: {name}"


def _dependency(given: Given) -> Said:
    """`afterok:17:18,singleton`; with ? between them one would be enough, which is not possible here."""
    after: list[dict[str, Any]] = []
    for part in given.value.split(","):
        kind, *jobs = part.split(":")
        if kind == "singleton" and not jobs:
            given.spec["singleton"] = True
        elif kind in DEPENDENCIES and jobs and all(job.isdecimal() for job in jobs):
            after += [{"job": int(job), "when": DEPENDENCIES[kind]} for job in jobs]
        else:
            known = ", ".join(f"{word}:ID" for word in DEPENDENCIES)
            raise WrongUse(
                f"--dependency={given.value}: {part!r} is not known here; expected one or more of {known},"
                " singleton, with commas between them."
            )
    if after:
        given.spec["after"] = after
    wishes = [f"job {each['job']} has {each['when']}" for each in after]
    told = ["singleton"] * ("singleton" in given.spec) + wishes
    return DONE, f"starts when {', '.join(told)}"


_MEANINGS: Mapping[str, Callable[[Given], Said]] = {
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu"), _size),
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu"), _size),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _gpus),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _memory),
    **dict.fromkeys(("output", "error"), lambda _: (NEARLY, "output is kept with the job: allot logs")),
    "account": _account,
    "array": _array,
    "begin": _begin,
    "constraint": _constraint,
    "container-image": lambda given: take_image(given.value, given.spec),
    "dependency": _dependency,
    "export": _export,
    "gres": _gres,
    "hold": _hold,
    "job-name": _job_name,
    "kill-on-invalid-dep": _kill_on_invalid_dep,
    "mail-type": _mail_type,
    "no-requeue": _no_requeue,
    "partition": _partition,
    "qos": _qos,
    "requeue": _requeue,
    "reservation": _reservation,
    "signal": _signal,
    "time": _time,
}
