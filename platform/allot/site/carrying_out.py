"""Doing the steps, one after another; whatever stops them, what was done is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allot.describe import problem_lines
from allot.errors import AllotError, FieldProblem, Refused
from allot.output import plural, shown_once

if TYPE_CHECKING:
    from allot.client import Client
    from allot.site.steps import Step


class NotAllDone(AllotError):
    """A step failed. Those before it are in force, those behind it were not tried."""

    def __init__(self, step: Step, error: AllotError, *, done: int, left: int) -> None:
        fields = error.fields if isinstance(error, Refused) else ()
        placed = [FieldProblem(f"{step.where}.{each.field}", each.problem, each.expected) for each in fields]
        lines = problem_lines("", f"{step.where}: {error}", placed)
        lines += [
            f"Made: {plural(done, 'change')}. Failed: this one. Not tried: {plural(left, 'change')}.",
            "Correct the file and apply it again; changes already made are not repeated.",
        ]
        super().__init__("\n".join(lines))


def carry_out(steps: Sequence[Step], client: Client) -> Iterator[tuple[Step, str]]:
    """Do each step, and yield it with what is to be handed over: a password, or the link of an invitation."""
    doer = Doer(client)
    for number, step in enumerate(steps):
        deed: Callable[..., str | None] = getattr(doer, step.deed)
        try:
            handed_over = deed(**step.given)
        except AllotError as error:
            raise NotAllDone(step, error, done=number, left=len(steps) - number - 1) from error
        yield step, handed_over or ""


@dataclass(frozen=True, slots=True)
class Doer:
    """Each deed by its name in `steps`; returns what is shown once."""

    client: Client

    def set_currency(self, code: str) -> None:
        self.client.set_cluster_settings({"currency": code})

    def set_price(self, gpu_model: str, price: float) -> None:
        self.client.set_price(gpu_model, price)

    def add_user(self, username: str, email: str = "") -> str:
        made = self.client.administration.add_user({"username": username, "email": email})
        return f"password of {username}: {shown_once(made['password'])}"

    def change_user(self, username: str, email: str) -> None:
        self.client.administration.change_user(username, {"email": email})

    def add_tenant(self, **fields: str) -> None:
        self.client.administration.add_tenant(fields)

    def change_tenant(self, name: str, changes: Mapping[str, Any]) -> None:
        self.client.administration.change_tenant(name, changes)

    def set_quota(
        self, tenant: str, limits: Mapping[str, int], cpus: float | None, memory_bytes: int | None
    ) -> None:
        self.client.administration.set_quota(tenant, limits, cpus=cpus, memory_bytes=memory_bytes)

    def set_budget(self, tenant: str, terms: Mapping[str, Any]) -> None:
        self.client.notices.set_budget(tenant, terms)

    def remove_budget(self, tenant: str) -> None:
        self.client.notices.remove_budget(tenant)

    def set_member(self, tenant: str, username: str, role: str) -> None:
        self.client.administration.set_member(tenant, username, role)

    def remove_member(self, tenant: str, username: str) -> None:
        self.client.administration.remove_member(tenant, username)

    def invite(self, tenant: str, email: str, role: str, revoked: Sequence[str]) -> str | None:
        made = self.client.administration.invite(tenant, {"email": email, "role": role})
        for key in revoked:
            self.client.administration.revoke_invitation(tenant, key)
        return f"invitation of {email}: {made['link']}" if made["link"] else None

    def add_node(self, **fields: str) -> None:
        self.client.administration.add_node(fields)

    def change_node(self, name: str, changes: Mapping[str, Any]) -> None:
        self.client.administration.change_node(name, changes)

    def add_virtual_cluster(self, name: str, fields: Mapping[str, Any]) -> None:
        self.client.administration.add_virtual_cluster({"name": name, **_as_asked(fields)})

    def change_virtual_cluster(self, name: str, fields: Mapping[str, Any]) -> None:
        self.client.set_virtual_cluster(name, _as_asked(fields))

    def set_guarantees(self, name: str, guaranteed: Mapping[str, int], growth: int) -> None:
        self.client.set_virtual_cluster(name, {"guaranteed": guaranteed})

    def set_cells(self, specification: Mapping[str, Any], version: int) -> None:
        self.client.set_cells(specification, version=version)


def _as_asked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a virtual cluster as the API takes them, where members are a list."""
    asked = dict(fields)
    if "members" in asked:
        asked["members"] = [{"tenant": name, "weight": value} for name, value in asked["members"].items()]
    return asked
