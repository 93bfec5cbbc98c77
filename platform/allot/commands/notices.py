"""notifications, webhook: which events users and addresses get, by e-mail and by webhook."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, connect
from allot.errors import WrongUse
from allot.output import Format, local_time, print_line, print_objects, print_table, say, shown_once, since

if TYPE_CHECKING:
    from allot.schema import Delivery, NewWebhook, NotificationSettings, Webhook

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Number = Annotated[int, typer.Argument(metavar="WEBHOOK", help="Number of the webhook.", min=1)]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Topic to send, such as job.failed; may be repeated."),
]
TenantOption = Annotated[
    str | None,
    typer.Option(help="The webhook's tenant. Default: the cluster, for operators.", show_default=False),
]


class Jobs(StrEnum):
    all = "all"
    failures = "failures"
    none = "none"


class States(StrEnum):
    waiting = "waiting"
    delivered = "delivered"
    given_up = "given_up"


def notifications(
    jobs: Annotated[Jobs | None, typer.Option(help="Events of your jobs that are mailed to you.")] = None,
    tenants: Annotated[
        bool | None,
        typer.Option("--tenants/--no-tenants", help="E-mail about budgets and webhooks that you manage."),
    ] = None,
    cluster: Annotated[
        bool | None,
        typer.Option("--cluster/--no-cluster", help="E-mail about lost and cordoned nodes. For operators."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Your e-mail address. A confirmation link is mailed to it.")
    ] = None,
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="[TENANT=]PERIOD",
            help=(
                "Usage report by e-mail: PERIOD is week, month or none. TENANT is a tenant that you "
                "administer. Default: the whole cluster, for operators. May be repeated."
            ),
        ),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Show or change which e-mails you get: `allot notifications --report vision=week`."""
    periods = [_report(text) for text in reports or ()]
    wanted = {"jobs": jobs and jobs.value, "tenants": tenants, "cluster": cluster}
    changes = {name: value for name, value in wanted.items() if value is not None}
    with connect() as client:
        if address is not None and client.notices.set_address(address)["confirmation_sent"]:
            say(f"A mail was sent to {address}: open the link in it to confirm the address.")
        for tenant, period in periods:
            client.notices.set_report(tenant, period)
        found = client.notices.change(changes) if changes else client.notices.settings()
        subscribed = list(client.notices.reports())
    if output is not Format.table:
        print_objects({**found, "reports": subscribed}, output)
        return
    of_use = [("Report", f"{row['tenant'] or 'the cluster'}, each {row['period']}") for row in subscribed]
    for name, text in [*_settings(found), *of_use]:
        print_line(f"{name:<10} {text}")


def _report(text: str) -> tuple[str | None, str | None]:
    """Return the tenant (None: the cluster) and the period (None: no more) of a `--report`."""
    tenant, _, period = text.rpartition("=")
    if period not in ("week", "month", "none"):
        raise WrongUse(f"--report: {period!r} is not a period; expected one of: week, month, none.")
    return tenant or None, None if period == "none" else period


def _settings(found: NotificationSettings) -> list[tuple[str, str]]:
    lines = [
        ("Address", found["address"] or "none: no mail is sent"),
        ("Jobs", found["jobs"]),
        ("Tenants", "yes" if found["tenants"] else "no"),
        ("Cluster", "yes" if found["cluster"] else "no"),
    ]
    if not found["can_send"]:
        lines.append(("Mail", "this installation has no mail server: nothing is sent"))
    elif found["problem"]:
        lines.append(("Problem", found["problem"]))
    return lines


@group.command(name="list")
def list_webhooks(tenant: TenantOption = None, output: OutputOption = Format.table) -> None:
    """List webhooks of a tenant, or of the cluster."""
    with connect() as client:
        found = list(client.notices.webhooks(tenant))
    if output is not Format.table:
        print_objects(found, output)
        return
    rows = [[row["id"], _state(row), row["url"], row["title"], ", ".join(row["topics"])] for row in found]
    print_table(["WEBHOOK", "STATE", "URL", "TITLE", "TOPICS"], rows, right=["WEBHOOK"])


def _state(webhook: Webhook) -> str:
    if not webhook["active"]:
        return "OFF"
    return "FAILING" if webhook["failing_since"] else "READY"


@group.command()
def show(webhook: Number, output: OutputOption = Format.table) -> None:
    """Show one webhook."""
    with connect() as client:
        found = client.notices.webhook(webhook)
    if output is not Format.table:
        print_objects(found, output)
        return
    lines = [
        ("Webhook", f"{found['id']}, {_state(found)}"),
        ("Title", found["title"] or "-"),
        ("URL", found["url"]),
        ("Tenant", found["tenant"] or "all (the operators')"),
        ("Topics", ", ".join(found["topics"])),
        ("Problem", found["problem"] or _failing(found)),
    ]
    for name, text in lines:
        print_line(f"{name:<10} {text}")


def _failing(webhook: Webhook) -> str:
    if webhook["failing_since"] is None:
        return "-"
    return f"{webhook['failures']} tries failed in a row, since {local_time(webhook['failing_since'])}"


@group.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address to send events to: https://host/path")],
    topic: TopicOption = None,
    tenant: TenantOption = None,
    title: Annotated[str, typer.Option(help="What it is for.")] = "",
    output: OutputOption = Format.table,
) -> None:
    """Create a webhook and print its secret, which is not shown again. For admins of the tenant, and
    operators.

    `allot webhook add https://ci.example.org/gpus --tenant vision --topic job.failed`
    """
    if not topic:
        raise WrongUse("Choose its topics with --topic: --topic job.failed --topic job.finished.")
    wanted = {"url": url, "topics": topic, "tenant": tenant, "title": title}
    with connect() as client:
        made = client.notices.add_webhook(wanted)
    _print_secret(made, output)


@group.command(name="set")
def change(
    webhook: Number,
    url: Annotated[str | None, typer.Option(help="Address to send events to: https://host/path")] = None,
    topic: TopicOption = None,
    title: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    active: Annotated[bool | None, typer.Option("--on/--off", help="Send events to it, or not.")] = None,
) -> None:
    """Change a webhook. Switching it on again resets its failures."""
    wanted: dict[str, Any] = {"url": url, "topics": topic, "title": title, "active": active}
    changes = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise WrongUse("Say what to change: --url, --topic, --title, --on or --off.")
    with connect() as client:
        changed = client.notices.change_webhook(webhook, changes)
    print_line(f"webhook {webhook}: {_state(changed)}, {changed['url']}, {', '.join(changed['topics'])}")


@group.command()
def remove(webhook: Number) -> None:
    """Remove a webhook and the messages that wait for it."""
    with connect() as client:
        client.notices.remove_webhook(webhook)
    print_line(f"webhook {webhook} is removed")


@group.command()
def rotate(webhook: Number, output: OutputOption = Format.table) -> None:
    """Create a new secret and print it once. The old secret also signs messages for one more day."""
    with connect() as client:
        made = client.notices.rotate_secret(webhook)
    _print_secret(made, output)


def _print_secret(made: NewWebhook, output: Format) -> None:
    if output is not Format.table:
        print_objects(made, output)
        return
    say(f"webhook {made['id']}: its secret, which is not shown again:")
    print_line(shown_once(made["secret"]))


@group.command()
def test(webhook: Number) -> None:
    """Send a test message; `allot webhook deliveries` shows its result."""
    with connect() as client:
        delivery = client.notices.test_webhook(webhook)
    print_line(f"delivery {delivery['id']} is on its way")


@group.command()
def deliveries(
    webhook: Number,
    state: Annotated[States | None, typer.Option(help="Only deliveries in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of rows.", min=1)] = 50,
    output: OutputOption = Format.table,
) -> None:
    """List messages sent to a webhook or waiting for it, newest first."""
    with connect() as client:
        found = list(client.notices.deliveries(webhook, state=state and state.value, limit=limit))
    if output is not Format.table:
        print_objects(found, output)
        return
    headings = ["DELIVERY", "TOPIC", "STATE", "AGE", "TRIES", "TIME", "ANSWER"]
    print_table(headings, [_delivery(row) for row in found], right=["DELIVERY", "TRIES", "TIME"])


def _delivery(row: Delivery) -> list[object]:
    took = "-" if row["seconds"] is None else f"{row['seconds']:.2f}s"
    answer = row["problem"] or (f"{row['status']} {row['reply']}" if row["status"] else "-")
    return [
        row["id"],
        row["topic"],
        row["state"].upper(),
        since(row["created_at"]),
        row["tries"],
        took,
        answer,
    ]


@group.command()
def redeliver(
    webhook: Number,
    delivery: Annotated[int, typer.Argument(metavar="DELIVERY", help="Number of the delivery.", min=1)],
) -> None:
    """Send a message again, with the same id."""
    with connect() as client:
        client.notices.redeliver(webhook, delivery)
    print_line(f"delivery {delivery} is on its way")


def register(app: typer.Typer) -> None:
    app.command()(notifications)
    app.add_typer(group, name="webhook", help="Manage webhooks: addresses to which events are sent.")
