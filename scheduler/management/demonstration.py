"""What the demonstration consists of; `manage.py demo` makes it.

Thirty-six simulated GPUs of three models in three racks; three tenants, each with a virtual cluster of its
own and all with a share in a common one; some GPUs of each model are not guaranteed to any virtual cluster.
Two of the models are divided by cells. Virtual clusters lend each other what they can do without, for
credits. The jobs' speeds are emulated, and differ by GPU model as those of real ones.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from scheduler.core.model.loan_terms import Lot
from scheduler.virtual_clusters.market.services.rules import Lending
from scheduler.wiring.plugins import ChosenPlugin

GIB = 2**30

#: Memory of one GPU by model.
GPU_MODELS: Mapping[str, int] = {"V100": 16 * GIB, "P100": 16 * GIB, "K80": 12 * GIB}


@dataclass(frozen=True, slots=True)
class DemoNode:
    """A simulated machine; its GPUs sit in pairs behind switches, half of them on each socket."""

    name: str
    rack: str
    gpu_model: str
    gpus: int

    def inventory(self) -> dict[str, Any]:
        """Return the inventory of the agent's configuration."""
        return {
            "kind": "simulated",
            "gpu_model": self.gpu_model,
            "gpus": [
                {
                    "index": index,
                    "socket": index * 2 // self.gpus,
                    "switch": index // 2,
                    "memory_bytes": GPU_MODELS[self.gpu_model],
                }
                for index in range(self.gpus)
            ],
            "cpus": 4.0 * self.gpus,
            "memory_bytes": 16 * GIB * self.gpus,
        }


#: What an attempt may have in its working folders, and a job in its checkpoints: many times what they need.
DISK_BYTES = GIB

NODES: Sequence[DemoNode] = (
    DemoNode("v100-a1", "rack-a", "V100", 4),
    DemoNode("v100-a2", "rack-a", "V100", 4),
    DemoNode("p100-b1", "rack-b", "P100", 4),
    DemoNode("p100-b2", "rack-b", "P100", 4),
    DemoNode("p100-b3", "rack-b", "P100", 4),
    DemoNode("k80-c1", "rack-c", "K80", 8),
    DemoNode("k80-c2", "rack-c", "K80", 8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTenant:
    name: str
    title: str
    #: The only member of this tenant, with the role there.
    username: str
    role: str
    quota: Mapping[str, int]
    guaranteed: Mapping[str, int]


TENANTS: Sequence[DemoTenant] = (
    DemoTenant(
        name="vision",
        title="Vision group",
        username="vera",
        role="admin",
        quota={"*": 20},
        guaranteed={"V100": 4, "P100": 4},
    ),
    DemoTenant(
        name="speech",
        title="Speech group",
        username="sam",
        role="member",
        quota={"*": 16, "V100": 4},
        guaranteed={"P100": 4},
    ),
    DemoTenant(
        name="robotics",
        title="Robotics group",
        username="robin",
        role="member",
        quota={"*": 16},
        guaranteed={"K80": 8},
    ),
)

#: The virtual cluster in which all tenants have a share. No virtual cluster is guaranteed the remaining 2
#: V100, 4 P100 and 4 K80.
SHARED = "shared"
SHARED_GUARANTEED: Mapping[str, int] = {"V100": 2, "K80": 4}
#: Shares by how much each application gains on a GPU model; leases of a minute, so that there is something to
#: watch.
SHARED_POLICY = ChosenPlugin("gavel", {"objective": "max_min", "lease_seconds": 60, "interval_seconds": 120})

#: V100 and K80 are divided by cells, P100 by counts. The cells come to the guarantees above.
CELLS: Mapping[str, Any] = {
    "types": {
        "V100-SWITCH": {"of": "V100", "count": 2},
        "V100-NODE": {"of": "V100-SWITCH", "count": 2, "node": True},
        "V100-RACK": {"of": "V100-NODE", "count": 2},
        "K80-SWITCH": {"of": "K80", "count": 2},
        "K80-SOCKET": {"of": "K80-SWITCH", "count": 2},
        "K80-NODE": {"of": "K80-SOCKET", "count": 2, "node": True},
        "K80-RACK": {"of": "K80-NODE", "count": 2},
    },
    "physical": [
        {"type": "V100-RACK", "name": "rack-a", "nodes": ["v100-a1", "v100-a2"]},
        {"type": "K80-RACK", "name": "rack-c", "nodes": ["k80-c1", "k80-c2"]},
    ],
    "virtual_clusters": {
        "vision": {"cells": {"V100-NODE": 1}},
        "robotics": {"cells": {"K80-NODE": 1}},
        SHARED: {"cells": {"V100-SWITCH": 1, "K80-SOCKET": 1}},
    },
}


#: Credits that each tenant's virtual cluster is granted every day.
ALLOWANCE_MILLICREDITS = 20_000
ALLOWANCE_SECONDS = 86_400
#: Robotics lends a socket that it does not need, at a fifth of a credit for a GPU and an hour or more.
LENDING = Lending(lot=Lot(cells={"K80-SOCKET": 1}), idle_seconds=600.0, lend_seconds=3_600.0, price=200)
LENDER_BY_RULE = "robotics"
#: Speech can do without two P100 for a while, once its first job has ended.
OFFERED = Lot(gpus={"P100": 2})
OFFER_FROM, OFFER_UNTIL = timedelta(hours=1), timedelta(hours=9)
OFFER_MILLICREDITS = 500
LENDER_BY_HAND = "speech"


#: The jobs that are submitted once.
DIGITS = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One of the digits examples, as a person of `tenant` submits it."""

    tenant: str
    name: str
    #: File in examples/digits.
    example: str = "single.yaml"
    #: Options of train.py: paced slowly, so that there is something to watch and little to compute.
    options: str
    gpus: int = 1
    replicas: int = 1
    gpu_model: str | Sequence[str] = "any"
    #: Application in examples/digits/pacing.py whose speed on each GPU model it emulates.
    like: str = "transformer"
    fields: Mapping[str, Any] = field(default_factory=dict)
    held: bool = False
    #: What is in the label `demo`.
    part: str = DIGITS


OPPORTUNISTIC = {"guarantee": "opportunistic"}

#: Tells the page that a job's speed is emulated, and whose.
EMULATED_LABEL = "emulated-speed"
#: Seconds that a step of the jobs below would last on a V100, the same for all that state an application.
STEP_SECONDS = 0.2
#: Samples per second, by application and GPU model, that jobs of that pace declare: 64 to a step, and the
#: ratios of examples/digits/pacing.py.
DECLARED: Mapping[str, Mapping[str, float]] = {
    "transformer": {"V100": 320.0, "P100": 189.1, "K80": 65.1},
    "a3c": {"V100": 320.0, "P100": 253.3, "K80": 153.4},
    "recommendation": {"V100": 320.0, "P100": 711.0, "K80": 447.3},
}

#: Submitted at once, in this order: they fill the guarantees, the opportunistic ones what is left, and some
#: wait, fail, are done soon or are held. Vision keeps two V100 for the first job of a user who tries it
#: (README.md): `digits-next` needs all four, and goes behind others. Together with the two V100 that no
#: guarantee covers they have room for the second one, an opportunistic gang of four: other opportunistic jobs
#: there are short, unless they move to P100 soon.
JOBS: Sequence[DemoJob] = (
    DemoJob(tenant="vision", name="digits-quick", options="--steps 150 --step-seconds 0.1", gpu_model="V100"),
    DemoJob(
        tenant="vision",
        name="digits-wide",
        example="gang.yaml",
        options="--steps 3000 --step-seconds 0.3",
        replicas=2,
        gpu_model="V100",
        fields={"guarantee": "guaranteed", "priority": 10, "time_limit": "30m"},
    ),
    DemoJob(
        tenant="speech",
        name="digits-speech",
        example="gang.yaml",
        options="--steps 2400 --step-seconds 0.3",
        replicas=2,
        gpus=2,
        gpu_model="P100",
        fields={"guarantee": "guaranteed", "topology": {"level": "node", "required": True}},
    ),
    DemoJob(
        tenant="robotics",
        name="digits-arm",
        example="gang.yaml",
        options="--steps 1200 --step-seconds 0.2",
        replicas=2,
        gpus=4,
        gpu_model="K80",
        fields={"guarantee": "guaranteed", "time_limit": "1h"},
    ),
    DemoJob(
        tenant="robotics",
        name="digits-overnight",
        options="--steps 20000 --step-seconds 0.5",
        gpus=4,
        gpu_model=["K80", "P100"],
        fields={**OPPORTUNISTIC, "time_limit": "1d"},
    ),
    DemoJob(
        tenant="speech",
        name="digits-spare",
        example="gang.yaml",
        options="--steps 6000 --step-seconds 0.3",
        replicas=2,
        gpus=2,
        gpu_model=["V100", "P100"],
        fields={**OPPORTUNISTIC, "time_limit": "2h"},
    ),
    DemoJob(
        tenant="vision",
        name="digits-next",
        example="gang.yaml",
        options="--steps 600 --step-seconds 0.2",
        replicas=4,
        gpu_model="V100",
        fields={"guarantee": "guaranteed", "time_limit": "20m", "priority": -10},
    ),
    DemoJob(
        tenant="vision",
        name="digits-seed-1",
        options="--steps 900 --step-seconds 0.2 --seed 1",
        gpus=2,
        gpu_model="P100",
        fields={"labels": {"sweep": "seeds"}, "time_limit": "15m"},
    ),
    DemoJob(
        tenant="vision",
        name="digits-seed-2",
        options="--steps 900 --step-seconds 0.2 --seed 2",
        gpus=2,
        gpu_model="P100",
        fields={"labels": {"sweep": "seeds"}, "time_limit": "15m"},
    ),
    DemoJob(
        tenant="vision",
        name="digits-seed-3",
        options="--steps 900 --step-seconds 0.2 --seed 3",
        gpus=2,
        gpu_model="P100",
        fields={"labels": {"sweep": "seeds"}, "time_limit": "15m", "priority": -10},
    ),
    # Speech may hold 4 V100 at once, and digits-spare does.
    DemoJob(
        tenant="speech",
        name="digits-more",
        options="--steps 100 --step-seconds 0.2",
        gpus=2,
        gpu_model="V100",
        fields={**OPPORTUNISTIC, "time_limit": "15m"},
    ),
    DemoJob(
        tenant="vision",
        name="digits-mistake",
        options="--batch 3",
        gpu_model="K80",
        fields=OPPORTUNISTIC,
    ),
    DemoJob(
        tenant="robotics",
        name="digits-later",
        options="--steps 300 --step-seconds 0.1",
        gpus=2,
        gpu_model="K80",
        held=True,
    ),
)


def _competitor(tenant: str, name: str, like: str, *, steps: int, declares: bool) -> DemoJob:
    """A job on one GPU of any model. If it declares no speeds, they have to be found out."""
    speeds = {"throughput": DECLARED[like]} if declares else {}
    return DemoJob(
        tenant=tenant,
        name=name,
        options=f"--steps {steps} --step-seconds {STEP_SECONDS}",
        like=like,
        fields={"virtual_cluster": SHARED, "application": like, "time_limit": "4h", **speeds},
    )


#: Submitted once the opportunistic job below runs, from which they take GPUs back: eight jobs on two V100 and
#: four K80, of three applications that gain very differently from a V100.
LATE_JOBS: Sequence[DemoJob] = (
    _competitor("vision", "digits-translate-1", "transformer", steps=6000, declares=True),
    _competitor("robotics", "digits-play-1", "a3c", steps=6000, declares=True),
    _competitor("speech", "digits-recommend-1", "recommendation", steps=9000, declares=True),
    _competitor("robotics", "digits-play-2", "a3c", steps=5000, declares=False),
    _competitor("vision", "digits-translate-2", "transformer", steps=5000, declares=False),
    _competitor("vision", "digits-play-3", "a3c", steps=4000, declares=False),
    _competitor("robotics", "digits-translate-3", "transformer", steps=4000, declares=False),
    _competitor("speech", "digits-recommend-2", "recommendation", steps=8000, declares=False),
)
PREEMPTED = "digits-spare"


# The stream: a job now and then for as long as the platform runs, so that no page is empty a day later.

STREAM = "stream"
#: Seconds between two jobs of the stream on average, and how many of them may be unfinished.
STREAM_SECONDS = 30.0
STREAM_MOST = 5
#: A quarter of a minute on a V100 to five minutes on a K80.
_STREAM_STEPS = (80, 300)


def stream_job(number: int) -> DemoJob:
    """Return a job of the stream, the same one for the same number.

    None takes a V100 of vision's, which the first job of a visitor is to have (README.md).
    """
    dice = random.Random(f"stream {number}")
    kind, like = dice.random(), dice.choice(sorted(DECLARED))
    options = f"--steps {dice.randint(*_STREAM_STEPS)} --step-seconds {STEP_SECONDS} --seed {number}"
    options += " --checkpoint-every 1000"
    job = DemoJob(
        tenant=dice.choice(TENANTS).name,
        name=f"{STREAM}-{number}",
        part=STREAM,
        options=options,
        gpu_model=["K80", "P100"],
        like=like,
        fields={**OPPORTUNISTIC, "time_limit": "15m", "labels": {"sweep": f"{STREAM}-{number // 20}"}},
    )
    if kind < 0.4:
        # All tenants compete here: the page shows what each was meant to have, and had.
        declared = {"application": like, "throughput": DECLARED[like]}
        fields = {"virtual_cluster": SHARED, "time_limit": "15m", **declared}
        return replace(job, gpu_model="any", fields=fields)
    if kind < 0.65:
        own = {"vision": "P100", "speech": "P100", "robotics": "K80"}[job.tenant]
        fields = {"guarantee": "guaranteed", "time_limit": "15m"}
        return replace(job, example="gang.yaml", replicas=2, gpu_model=own, fields=fields)
    if kind < 0.95:
        return replace(job, gpus=dice.choice((1, 1, 2)))
    # Now and then a user makes a mistake.
    return replace(job, options="--batch 3")
