"""`allot vc` against the real REST API: an operator proposes, checks and applies cells, and looks at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from allot import schema
from allot.client import Client
from scheduler.models import CellSpecification
from scheduler.rounds.run import run_round
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_job, make_node, make_tenant, make_user, make_vc


@pytest.fixture
def allot(live_server: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as an operator of a cluster of two nodes; shared is guaranteed six GPUs."""
    make_vc("shared", members=[make_tenant("research")], guaranteed={"V100": 6})
    for name in ("v100-1", "v100-2"):
        make_node(name, gpus=4)
    monkeypatch.chdir(tmp_path)

    return signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)))


def write(document: dict[str, Any]) -> str:
    Path("cells.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return "cells.yaml"


def running_job() -> Any:
    """A job on four GPUs of shared, which a round has started."""
    from tenants.models import Tenant, VirtualCluster

    job = make_job(
        tenant=Tenant.objects.get(), virtual_cluster=VirtualCluster.objects.get(), gpus=4, name="train"
    )
    run_round()
    job.attempts.update(state="running")
    return job


def test_a_proposal_is_checked_applied_and_shown(allot: Allot) -> None:
    assert "not divided by cells" in allot("vc", "cells").stderr
    proposed = yaml.safe_load(allot("vc", "propose").stdout)
    assert proposed["virtual_clusters"] == {"shared": {"cells": {"V100-NODE": 1, "V100-SWITCH": 1}}}
    file = write(proposed)
    assert "V100:6" in allot("vc", "check", file).stdout
    assert not CellSpecification.objects.exists()

    assert allot("vc", "apply", file).stdout.endswith("The cells are in force as version 1.\n")
    running_job()
    tree = allot("vc", "cells").stdout.splitlines()
    assert tree[0].split() == ["CELL", "TYPE", "GPUS", "FREE", "USED", "EXTRA", "BAD", "STATE", "VC"]
    assert [line.split()[0] for line in tree[1:]] == ["rack-1", "·", "·"]
    assert tree[1].split()[1:] == ["V100-RACK", "8", "4", "4", "0", "0", "MIXED", "-"]
    assert tree[2].split()[1:] == ["v100-1", "V100-NODE", "4", "0", "4", "0", "0", "USED", "shared"]
    inside = json.loads(allot("vc", "cells", "--at", "rack-1/v100-1", "-d", "2", "-o", "json").stdout)
    assert [cell["address"] for cell in inside][:3] == [
        f"rack-1/v100-1/{place}" for place in ("0", "0/0", "0/1")
    ]
    assert "rack-1/v100-1" in allot("vc", "cells", "shared").stdout
    assert "V100-SWITCH" in allot("vc", "show", "shared").stdout
    assert allot("vc", "list", "-q").stdout == "shared\n"
    assert allot("vc", "cells", "--at", "rack-9").exit_code == 3


def test_mistakes_are_told_with_their_place(allot: Allot) -> None:
    proposed = yaml.safe_load(allot("vc", "propose").stdout)
    proposed["virtual_clusters"]["shraed"] = {"cells": {"V100-NODE": 2}}
    for command in ("check", "apply"):
        result = allot("vc", command, write(proposed))
        assert result.exit_code == 1
        assert "V100-NODE are 1 too many" in result.stderr
    assert not CellSpecification.objects.exists()
    assert allot("vc", "check", "nowhere.yaml").exit_code == 2
    assert "is not a specification of cells" in allot("vc", "check", "-", stdin="[1, 2]").stderr


def test_before_a_guarantee_lapses_one_is_asked(allot: Allot) -> None:
    proposed = yaml.safe_load(allot("vc", "propose").stdout)
    allot("vc", "apply", write(proposed))
    job = running_job()
    proposed["virtual_clusters"] = {"shared": {"cells": {"V100-SWITCH": 1}}}
    file = write(proposed)
    refused = allot("vc", "apply", file, stdin="n\n")
    assert (
        f"1 of 1 running job of shared would lose the guarantee and run on without: {job.id}."
        in refused.stderr
    )
    assert refused.exit_code == 1
    assert CellSpecification.objects.count() == 1
    assert allot("vc", "apply", file, "-y").exit_code == 0
    run_round()
    assert "lapsed: its cells no longer exist" in allot("show", str(job.id)).stdout


def test_answers_are_what_their_types_promise(allot: Allot) -> None:
    with Client.from_environment() as client:
        proposed = client.propose_cells()
        answers = [
            (client.check_cells(proposed), schema.CellsCheck),
            (client.set_cells(proposed, version=0), schema.Cells),
            (list(client.cell_tree()), list[schema.CellNode]),
            (client.cells_of("shared"), schema.VirtualClusterHoldings),
        ]
    for answer, kind in answers:
        assert answer
        msgspec.convert(answer, type=kind)
