"""failure-rules, idle-gpus: what the site knows of failures, and of GPUs that do nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, connect
from allot.output import Format, duration, print_line, print_objects, print_table, say
from allot.specfiles import read_document, read_text
from allot.times import span_seconds

if TYPE_CHECKING:
    from allot.schema import ClusterSettings, FailureRule

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

#: What the server takes of an output; a node sends the last 8 KiB of it.
_LOG_CHARACTERS = 64 * 1024
_LOG_BYTES = 64 * 1024 * 1024
_KIND = "a file of failure rules, with a list `rules`"

RulesFile = Annotated[
    str, typer.Argument(metavar="FILE", help="File in YAML or JSON; - reads standard input.")
]


class Then(StrEnum):
    warn = "warn"
    stop = "stop"


@group.command(name="list")
def show(output: OutputOption = Format.table) -> None:
    """List the site's rules in the order in which they are tried. `-o yaml` prints a file for `apply`."""
    with connect() as client:
        rules = client.failure_rules()
    if output is not Format.table:
        print_objects({"rules": rules}, output)
    elif not rules:
        say("You have no rules: only the built-in ones classify failures.")
    else:
        rows = [
            [rule["name"], rule["class"], _retry(rule), rule["severity"], _looks_for(rule)] for rule in rules
        ]
        print_table(["NAME", "CLASS", "TRIED AGAIN", "SEVERITY", "LOOKS FOR"], rows)


@group.command()
def apply(file: RulesFile) -> None:
    """Replace all rules of the site by those in a file. For operators."""
    document = read_document(file, _KIND)
    with connect() as client:
        rules = client.set_failure_rules(document.get("rules"))
    names = ", ".join(rule["name"] for rule in rules)
    print_line(f"In force now: {names or 'no rules of the site'}.")


@group.command(name="test")
def try_out(
    file: RulesFile,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="File with a job's output, of which the last 64 KiB are searched."
        ),
    ],
    exit_code: Annotated[
        int, typer.Option(help="Exit code of the job; 128 + N if signal N ended it.", min=1, max=255)
    ] = 1,
) -> None:
    """Test which rule of a file an output matches. Changes nothing. For operators."""
    document, text = read_document(file, _KIND), read_text(log, most_bytes=_LOG_BYTES)
    with connect() as client:
        found = client.try_failure_rules(document.get("rules"), text[-_LOG_CHARACTERS:], exit_code)
    rule = found["rule"]
    if rule is None:
        print_line("No rule matches: the built-in classes decide.")
        raise typer.Exit(1)
    again = "tried again" if found["tried_again"] else "not tried again"
    print_line(
        f"{rule['name']}: {rule['says']} (class {rule['class']}, {found['layer']}). The job is {again}."
    )
    if rule["advice"]:
        print_line(f"Advice: {rule['advice']}")


def idle_gpus(
    after: Annotated[
        str | None, typer.Option(help="Act after this idle time, such as 30m or 2h; or `never`.")
    ] = None,
    below: Annotated[
        float | None,
        typer.Option(
            "--below",
            metavar="PERCENT",
            help="A GPU counts as idle below this utilisation, in percent.",
            min=0.1,
            max=100,
        ),
    ] = None,
    then: Annotated[Then | None, typer.Option(help="Action: warn the job's owner, or stop the job.")] = None,
) -> None:
    """Show what happens to jobs whose GPUs are idle; operators can change it.

    A job overrides this by `watch.idle_gpus` in its specification.
    """
    changes: dict[str, Any] = {}
    if after is not None:
        changes["idle_gpus_seconds"] = None if after == "never" else span_seconds(after, "--after")
    if below is not None:
        changes["idle_gpus_below_percent"] = below
    if then is not None:
        changes["idle_gpus_then"] = then.value
    with connect() as client:
        settings = client.set_cluster_settings(changes) if changes else client.cluster_settings()
    print_line(_idle_words(settings))


def _idle_words(settings: ClusterSettings) -> str:
    idle_seconds = settings["idle_gpus_seconds"]
    if idle_seconds is None:
        return "No action for idle GPUs, unless their job sets one."
    what = "is stopped" if settings["idle_gpus_then"] == "stop" else "is warned of"
    below = f"{settings['idle_gpus_below_percent']:g} %"
    return f"A job whose GPUs were less than {below} busy for {duration(idle_seconds)} {what}."


def _retry(rule: FailureRule) -> str:
    return {None: "as its class", "never": "no", "again": "yes", "elsewhere": "elsewhere"}[rule["retry"]]


def _looks_for(rule: FailureRule) -> str:
    parts = [f"/{rule['pattern']}/"] if rule["pattern"] else []
    ends = [f"exit {code}" for code in rule["exit_codes"]] + [
        f"signal {number}" for number in rule["signals"]
    ]
    return " and ".join([*parts, *([", ".join(ends)] if ends else [])])


def register(app: typer.Typer) -> None:
    app.add_typer(
        group,
        name="failure-rules",
        help="Manage failure classification rules: patterns, exit codes and signals.",
    )
    app.command(name="idle-gpus")(idle_gpus)
