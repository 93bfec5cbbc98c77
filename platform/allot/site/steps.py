"""From what there is to what a file states, in steps: decided without asking the user.

What a file does not name stays as it is, objects and fields alike. A list or a mapping that it does give is
whole: a member, or a line of a quota, that is not in it goes. No step removes a tenant, a user, a node or a
virtual cluster; `allot admin` does (decision 0081).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from allot.errors import FieldProblem
from allot.output import parse_time
from allot.site.present import Present

#: The fields of a tenant that are set together.
_QUOTA = ("quota", "quota_cpus", "quota_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change that the server makes whole or not at all."""

    #: The place of the file that asks for it: `tenants[2].quota`.
    where: str
    #: What changes, for people.
    lines: tuple[str, ...]
    #: The method of `carrying_out.Doer` that does it, and what it is given.
    deed: str
    given: Mapping[str, Any]


def problems_with_names(document: Mapping[str, Any], now: Present) -> list[FieldProblem]:
    """Return where a file names users and tenants that there will not be."""
    users = {*now.users, *(user["username"] for user in document.get("users", ()))}
    tenants = {*now.tenants, *(tenant["name"] for tenant in document.get("tenants", ()))}
    problems = [
        FieldProblem(f"prices.{model}", "there is no such GPU model", f"one of: {', '.join(now.prices)}")
        for model in document.get("prices", {})
        if model not in now.prices
    ]
    for number, tenant in enumerate(document.get("tenants", ())):
        for username in tenant.get("members", ()):
            if username not in users:
                is_out = username in now.inactive
                problem = "is deactivated" if is_out else "there is no such user"
                expected = f"`allot admin user reactivate {username}` first" if is_out else "one of `users`"
                problems.append(FieldProblem(f"tenants[{number}].members.{username}", problem, expected))
    for number, user in enumerate(document.get("users", ())):
        if user["username"] in now.inactive:
            expected = f"`allot admin user reactivate {user['username']}` first, or no such entry"
            problems.append(FieldProblem(f"users[{number}]", "is deactivated", expected))
    for number, vc in enumerate(document.get("virtual_clusters", ())):
        for tenant in vc.get("members", ()):
            if tenant not in tenants:
                where = f"virtual_clusters[{number}].members.{tenant}"
                problems.append(FieldProblem(where, "there is no such tenant", "one of `tenants`"))
    return problems


def steps(document: Mapping[str, Any], now: Present) -> list[Step]:
    """Return what is to be done, in an order in which each step finds what it needs.

    `cells` is the specification as the server writes it out.
    """
    vcs = list(enumerate(document.get("virtual_clusters", ())))
    guarantees = [step for number, vc in vcs for step in _guarantees(number, vc, now)]
    return [
        *_money(document, now),
        *(step for number, user in enumerate(document.get("users", ())) for step in _user(number, user, now)),
        *(
            step
            for number, one in enumerate(document.get("tenants", ()))
            for step in _tenant(number, one, now)
        ),
        *(step for number, node in enumerate(document.get("nodes", ())) for step in _node(number, node, now)),
        *(step for number, vc in vcs for step in _virtual_cluster(number, vc, now)),
        *_cells(document, now),
        # What is taken away first: at no time is more guaranteed than there is.
        *sorted(guarantees, key=lambda step: step.given["growth"]),
    ]


def _money(document: Mapping[str, Any], now: Present) -> Iterator[Step]:
    if "currency" in document and (document["currency"] or None) != now.currency:
        code = document["currency"] or None
        line = f"~ currency: {now.currency or 'none'} -> {code or 'none'}"
        yield Step(where="currency", lines=(line,), deed="set_currency", given={"code": code or ""})
    for model, price in document.get("prices", {}).items():
        there = now.prices.get(model)
        if price != there:
            line = f"~ price of {model}: {_text(there)} -> {_text(price)}"
            given = {"gpu_model": model, "price": price}
            yield Step(where=f"prices.{model}", lines=(line,), deed="set_price", given=given)


def _user(number: int, user: Mapping[str, Any], now: Present) -> Iterator[Step]:
    username, email = user["username"], user.get("email")
    there, where = now.users.get(username), f"users[{number}]"
    if there is None:
        line = f"+ user {username}{f' ({email})' if email else ''}, with a random password"
        yield Step(where=where, lines=(line,), deed="add_user", given=user)
    elif email is not None and email != there["email"]:
        line = f"~ user {username}: email {_text(there['email'])} -> {_text(email)}"
        given = {"username": username, "email": email}
        yield Step(where=f"{where}.email", lines=(line,), deed="change_user", given=given)


def _tenant(number: int, tenant: Mapping[str, Any], now: Present) -> Iterator[Step]:
    name, where = tenant["name"], f"tenants[{number}]"
    there = now.tenants.get(name)
    if there is None:
        given = {"name": name, "title": tenant.get("title", "")}
        yield Step(where=where, lines=(f"+ tenant {name}",), deed="add_tenant", given=given)
        there = {"title": given["title"], "most_unfinished_jobs": None, "quota": {}, "budget": None}
        there |= {"quota_cpus": None, "quota_memory_bytes": None}
    what = f"tenant {name}"
    if changes := _changes(tenant, there, ("title", "most_unfinished_jobs")):
        lines = _lines(what, there, changes)
        yield Step(where=where, lines=lines, deed="change_tenant", given={"name": name, "changes": changes})
    if changes := _changes(tenant, there, _QUOTA):
        # What is left out stays as it is.
        limits, cpus, memory_bytes = [changes.get(field, there[field]) for field in _QUOTA]
        yield Step(
            where=f"{where}.{next(iter(changes))}",
            lines=_lines(what, there, changes),
            deed="set_quota",
            given={"tenant": name, "limits": limits, "cpus": cpus, "memory_bytes": memory_bytes},
        )
    yield from _budget(where, tenant, there)
    yield from _members(where, tenant, there.get("members", {}))
    yield from _invitations(where, tenant, there, now)


def _budget(where: str, tenant: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[Step]:
    if "budget" not in tenant:
        return
    name, wanted, has = tenant["name"], tenant["budget"], there["budget"]
    if wanted is None:
        if has is not None:
            line = f"- tenant {name}: budget {_text(has)}"
            yield Step(where=f"{where}.budget", lines=(line,), deed="remove_budget", given={"tenant": name})
        return
    if has is not None and all(_is_same(field, value, has[field]) for field, value in wanted.items()):
        return
    # What is left out stays as it is, its beginning too.
    terms = {**(has or {}), **wanted}
    lines = _lines(f"tenant {name}", {"budget": has}, {"budget": terms})
    given = {"tenant": name, "terms": terms}
    yield Step(where=f"{where}.budget", lines=lines, deed="set_budget", given=given)


def _is_same(field: str, one: Any, other: Any) -> bool:
    if field != "starts_at":
        return bool(one == other)
    try:
        return parse_time(one) == parse_time(other)
    except ValueError:
        # The server says what is wrong with it.
        return False


def _members(where: str, tenant: Mapping[str, Any], there: Mapping[str, str]) -> Iterator[Step]:
    if "members" not in tenant:
        return
    name, wanted = tenant["name"], tenant["members"]
    # Members who join come before those who leave, so that an admin is always there.
    for username, role in wanted.items():
        if there.get(username) != role:
            was = f" (was {there[username]})" if username in there else ""
            sign = "~" if was else "+"
            yield Step(
                where=f"{where}.members.{username}",
                lines=(f"{sign} tenant {name}: member {username}, {role}{was}",),
                deed="set_member",
                given={"tenant": name, "username": username, "role": role},
            )
    for username in there:
        if username not in wanted:
            yield Step(
                where=f"{where}.members",
                lines=(f"- tenant {name}: member {username}, {there[username]}",),
                deed="remove_member",
                given={"tenant": name, "username": username},
            )


def _invitations(
    where: str, tenant: Mapping[str, Any], there: Mapping[str, Any], now: Present
) -> Iterator[Step]:
    """An invitation that was accepted is not made again: by then a member has the address."""
    name = tenant["name"]
    addresses = {
        now.users.get(username, {}).get("email", "").lower() for username in there.get("members", {})
    }
    for number, invitation in enumerate(tenant.get("invitations", ())):
        email, role = invitation["email"], invitation["role"]
        open_roles = {
            each: key
            for (of, address, each), key in now.invitation_keys.items()
            if of == name and address.lower() == email.lower()
        }
        if role in open_roles or email.lower() in addresses:
            continue
        others = "".join(f", in place of {each}" for each in open_roles)
        yield Step(
            where=f"{where}.invitations[{number}]",
            lines=(f"+ tenant {name}: invitation of {email}, {role}{others}",),
            deed="invite",
            given={"tenant": name, "email": email, "role": role, "revoked": list(open_roles.values())},
        )


def _node(number: int, node: Mapping[str, Any], now: Present) -> Iterator[Step]:
    name, where = node["name"], f"nodes[{number}]"
    there = now.nodes.get(name)
    if there is None:
        given = {field: node[field] for field in ("name", "rack") if field in node}
        line = f"+ node {name}; `allot admin node token {name}` gives its agent a token"
        yield Step(where=where, lines=(line,), deed="add_node", given=given)
        there = {"cordoned": False, "rack": node.get("rack")}
    if changes := _changes(node, there, ("rack", "cordoned")):
        lines = _lines(f"node {name}", there, changes)
        given = {"name": name, "changes": {**changes, "why": node.get("why", "")}}
        yield Step(where=where, lines=lines, deed="change_node", given=given)


def _virtual_cluster(number: int, vc: Mapping[str, Any], now: Present) -> Iterator[Step]:
    """All of it but the guarantees, which have their place behind the cells."""
    name, where = vc["name"], f"virtual_clusters[{number}]"
    there = now.virtual_clusters.get(name)
    wanted = {field: value for field, value in vc.items() if field not in ("name", "guaranteed")}
    if there is None:
        lines = (f"+ virtual cluster {name}", *(f"    {field}: {_text(wanted[field])}" for field in wanted))
        yield Step(
            where=where, lines=lines, deed="add_virtual_cluster", given={"name": name, "fields": wanted}
        )
        return
    for plugin in ("policy_plugin", "placer_plugin"):
        if plugin in wanted:
            wanted[plugin] = {"parameters": {}, **wanted[plugin]}
    if changes := _changes(wanted, there, tuple(wanted)):
        lines = _lines(f"virtual cluster {name}", there, changes)
        yield Step(
            where=where, lines=lines, deed="change_virtual_cluster", given={"name": name, "fields": changes}
        )


def _guarantees(number: int, vc: Mapping[str, Any], now: Present) -> Iterator[Step]:
    if "guaranteed" not in vc:
        return
    name = vc["name"]
    there = now.virtual_clusters.get(name, {}).get("guaranteed", {})
    wanted = {model: gpus for model, gpus in vc["guaranteed"].items() if gpus}
    if wanted != there:
        yield Step(
            where=f"virtual_clusters[{number}].guaranteed",
            lines=_lines(f"virtual cluster {name}", {"guaranteed": there}, {"guaranteed": wanted}),
            deed="set_guarantees",
            given={
                "name": name,
                "guaranteed": wanted,
                "growth": sum(wanted.values()) - sum(there.values()),
            },
        )


def _cells(document: Mapping[str, Any], now: Present) -> Iterator[Step]:
    if "cells" in document and document["cells"] != now.cells:
        wanted = document["cells"]
        parts = [
            part for part in ("types", "physical", "virtual_clusters") if wanted[part] != now.cells[part]
        ]
        lines = _lines("cells", now.cells, {part: wanted[part] for part in parts})
        given = {"specification": wanted, "version": now.cells_version}
        yield Step(where="cells", lines=lines, deed="set_cells", given=given)


def _changes(wanted: Mapping[str, Any], there: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: wanted[field] for field in fields if field in wanted and wanted[field] != there[field]}


def _lines(what: str, there: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"~ {what}",
        *(f"    {field}: {_text(there.get(field))} -> {_text(value)}" for field, value in changes.items()),
    )


def _text(value: Any) -> str:
    return "none" if value in (None, {}, []) else json.dumps(value, ensure_ascii=False)
