"""One tenant with a member and a viewer, a stranger, an operator, and eight V100 for the tenant."""

from dataclasses import dataclass

import pytest

from scheduler.models import Node
from tenants.models import Tenant, VirtualCluster
from tests.api.caller import Caller, caller
from tests.scheduler.builders import make_member, make_node, make_tenant, make_user, make_vc


@dataclass(frozen=True, kw_only=True)
class World:
    tenant: Tenant
    virtual_cluster: VirtualCluster
    node: Node
    member: Caller
    viewer: Caller
    stranger: Caller
    operator: Caller


@pytest.fixture
def world(db: None) -> World:
    tenant, other = make_tenant("vision"), make_tenant("other")
    node = make_node("node-a", gpus=8)
    return World(
        tenant=tenant,
        node=node,
        virtual_cluster=make_vc("research", members=[tenant], guaranteed={"V100": 8}),
        member=caller(make_member(tenant, "mia")),
        viewer=caller(make_member(tenant, "vic", role="viewer")),
        stranger=caller(make_member(other, "sam")),
        operator=caller(make_user("olga", operator=True)),
    )


def spec(**fields: object) -> dict:
    """Return a valid specification of one GPU."""
    return {"name": "train", "command": ["true"], "gpus": 1, **fields}
