"""vcs, events, fragmentation: virtual clusters, what happens in the cluster, how useful idle GPUs are."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import PATIENCE_SECONDS, JsonOption, OutputOption, QuietOption, connect
from allot.describe import limit_words, limits_words, lot_words, overcommit_words
from allot.errors import WrongUse
from allot.output import (
    Format,
    local_time,
    parse_time,
    plural,
    print_line,
    print_object_line,
    print_objects,
    print_table,
    say,
    since,
)
from allot.plugin_text import assignments, text_of
from allot.times import past

if TYPE_CHECKING:
    from allot.schema import Event, IncomingLoan, OutgoingLoan, Overrun, VirtualCluster


def vcs(
    name: Annotated[str | None, typer.Argument(help="Show this virtual cluster.")] = None,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
) -> None:
    """List virtual clusters, or show one."""
    with connect() as client:
        found = client.virtual_cluster(name) if name else client.virtual_clusters()
    if output is not Format.table:
        print_objects(found, output)
    elif not isinstance(found, list):
        _print_vc(found)
    elif quiet:
        for vc in found:
            print_line(vc["name"])
    elif not found:
        say("No virtual clusters that you could use. Ask an operator to make your tenant a member of one.")
    else:
        rows = [
            [
                vc["name"],
                vc["policy_plugin"]["name"],
                text_of(vc["placer_plugin"]),
                amounts(vc["guaranteed"]),
                amounts(_in_use(vc, "guaranteed")),
                amounts(_in_use(vc, "opportunistic")),
                vc["running"],
                vc["queued"],
                ", ".join([*(member["tenant"] for member in vc["members"]), *_others(vc)]),
            ]
            for vc in found
        ]
        columns = [
            "NAME",
            "POLICY",
            "PLACER",
            "GUARANTEED",
            "IN USE",
            "EXTRA",
            "RUNNING",
            "QUEUED",
            "MEMBERS",
        ]
        print_table(columns, rows, right=("RUNNING", "QUEUED"))


def policy_words(vc: VirtualCluster) -> str:
    given = ", ".join(assignments(vc["policy_plugin"]))
    return f"{vc['policy_plugin']['name']}{' with ' + given if given else ''}"


def amounts(gpus: dict[str, int]) -> str:
    return ",".join(f"{model}:{count}" for model, count in gpus.items() if count) or "-"


def _others(vc: VirtualCluster) -> list[str]:
    others = plural(vc["other_members"], "other")
    return [f"and {others}" if vc["members"] else others] if vc["other_members"] else []


def _in_use(vc: VirtualCluster, kind: str) -> dict[str, int]:
    if kind == "guaranteed":
        return {model: usage["guaranteed_in_use"] for model, usage in vc["usage"].items()}
    return {model: usage["opportunistic_in_use"] for model, usage in vc["usage"].items()}


#: What `sharing` of a virtual cluster means.
SHARING_WORDS = {
    "never": "each GPU serves one job",
    "measured": "jobs may share a GPU once measurements show that they run well together",
    "free": "any jobs may share a GPU",
}


def _print_vc(vc: VirtualCluster) -> None:
    title = f" ({vc['title']})" if vc["title"] else ""
    print_line(f"Virtual cluster {vc['name']}{title}")
    for heading, text in (
        ("Policy", policy_words(vc)),
        ("Placer", text_of(vc["placer_plugin"])),
        *overrun_lines(vc["overrun"]),
        ("Limits", limits_words(vc)),
        ("Time limit", f"{limit_words(vc['default_time_limit_seconds'])} for jobs without one"),
        ("Sharing", SHARING_WORDS[vc["sharing"]]),
        ("Overcommit", overcommit_words(vc)),
        (
            "Members",
            ", ".join(
                [
                    *(f"{member['tenant']} (weight {member['weight']:g})" for member in vc["members"]),
                    *_others(vc),
                ]
            ),
        ),
        ("Jobs", f"{vc['running']} running, {vc['queued']} queued"),
        *(("Lent", _loan_words(loan, f"to {loan['to']}")) for loan in vc["lent"]),
        *(("Borrowed", _loan_words(loan, f"of {loan['from']}")) for loan in vc["borrowed"]),
    ):
        print_line(f"  {heading:<12} {text or '-'}")
    print_line("")
    extra = _in_use(vc, "opportunistic")
    used = _in_use(vc, "guaranteed")
    rows = [
        [model, vc["guaranteed"].get(model, 0), used.get(model, 0), extra.get(model, 0)]
        for model in sorted({*vc["guaranteed"], *vc["usage"]})
    ]
    columns = ["MODEL", "GUARANTEED", "IN USE", "EXTRA"]
    print_table(columns, rows, right=columns[1:])


def _loan_words(loan: OutgoingLoan | IncomingLoan, whom: str) -> str:
    return f"{lot_words(loan['lot'])} {whom} until {local_time(loan['ends_at'])} (loan {loan['loan']})"


def overrun_lines(overrun: Overrun | None) -> list[tuple[str, str]]:
    """Return what there is to say about a policy that takes too long: heading and text."""
    if overrun is None:
        return []
    return [
        ("Overrun", f"a cheap policy has decided since {local_time(overrun['since'])}: {overrun['message']}")
    ]


def events(
    job: Annotated[int | None, typer.Option("--job", "-j", min=1, help="Only of this job.")] = None,
    node: Annotated[str | None, typer.Option(help="Only of this node.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    begin: Annotated[
        str | None,
        typer.Option("--since", help="Only events since this time: 2h (ago), today, or 2026-12-01T18:00."),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Maximum number of events.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print events as they happen, until Ctrl-C.")
    ] = False,
    output: OutputOption = Format.table,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List events, newest last; with --follow, print each event as it happens."""
    output = Format.json if as_json else output
    first = past(begin, "--since") if begin else None
    filters = {"job": job, "node": node, "tenant": tenant, "kind": kind}
    if follow:
        if output is Format.yaml:
            raise WrongUse("--follow prints one event a line. Expected --json, or no --output.")
        with connect(patient=True) as client:
            for event in client.events.follow(since=first, patience_seconds=PATIENCE_SECONDS, **filters):
                _print_at_once(event, output, quiet=quiet)
        return
    with connect() as client:
        listed = client.events.listed(limit=rows, **filters)
        found = list(takewhile(lambda event: first is None or parse_time(event["at"]) >= first, listed))
    # The API gives the newest first; a person reads a history downwards, and it ends at the prompt.
    found.reverse()
    if output is not Format.table:
        print_objects(found, output)
    elif quiet:
        for event in found:
            print_line(str(event["id"]))
    elif not found:
        say("No events.")
    else:
        table = [
            [
                since(event["at"]),
                event["kind"],
                f"{event['subject']} {event['subject_id']}",
                _change(event),
                event["actor"] or "-",
                event["message"],
            ]
            for event in found
        ]
        print_table(["AGE", "KIND", "SUBJECT", "CHANGE", "BY", "MESSAGE"], table, right=("AGE",))


def _change(event: Event) -> str:
    return " → ".join(part.upper() for part in (event["from"], event["to"]) if part) or "-"


def _print_at_once(event: Event, output: Format, *, quiet: bool) -> None:
    if output is Format.json:
        print_object_line(event)
    elif quiet:
        print_line(str(event["id"]))
    else:
        subject = f"{event['subject']} {event['subject_id']}"
        words = [local_time(event["at"]), event["kind"], subject, _change(event), event["actor"] or "-"]
        print_line("  ".join([*words, event["message"].replace("\n", " ")]).rstrip())
    # A pipe gets it now, not with the next kilobytes.
    sys.stdout.flush()


#: What replicas of the usual workload miss where GPUs are idle.
CAUSES = {
    "gpus": "too few GPUs together, or too little of one",
    "cpus": "too few CPUs",
    "gpus_and_cpus": "too few GPUs and CPUs",
    "model": "another GPU model",
    "no_gpu": "they need no GPU",
    "no_gpu_no_cpus": "they need no GPU, and too few CPUs",
}
_KINDS_SHOWN = 10


def fragmentation(output: OutputOption = Format.table) -> None:
    """Show how many idle GPUs the usual jobs cannot use (fragmentation), and why. For operators."""
    with connect() as client:
        found = client.fragmentation()
    newest = found["newest"]
    if output is not Format.table:
        print_objects(found, output)
    elif newest is None:
        say("Not measured yet; it is measured once a minute.")
    else:
        print_line(
            f"{newest['fragmented']:.1f} of {newest['idle']:.1f} idle GPUs are of no use to an average "
            f"replica ({since(newest['at'])} ago)."
        )
        causes = sorted(newest["causes"].items(), key=lambda cause: -cause[1])
        print_table(
            ["GPUS", "WHAT IS MISSING"],
            [[f"{gpus:.1f}", CAUSES.get(name, name)] for name, gpus in causes],
            right=("GPUS",),
        )
        rows = [
            [
                f"{kind['gpus']:g}",
                f"{kind['cpus']:g}",
                ",".join(kind["gpu_models"]) or "any",
                f"{100 * kind['frequency']:.1f} %",
                f"{kind['usable']:.1f}",
            ]
            for kind in newest["kinds"][:_KINDS_SHOWN]
        ]
        columns = ["GPUS A REPLICA", "CPUS", "MODELS", "OF ALL", "CAN USE"]
        print_table(columns, rows, right=("GPUS A REPLICA", "CPUS", "OF ALL", "CAN USE"))


def register(app: typer.Typer) -> None:
    for command in (vcs, events, fragmentation):
        app.command()(command)
