"""what-if: what would become of a job, or of the queue, if something were different."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from allot.commands.options import OutputOption, connect
from allot.errors import AllotError, WrongUse
from allot.forecasts import answer_lines
from allot.output import Format, print_line, print_objects
from allot.specfiles import pairs, read_sources

#: How long an answer is waited for.
PATIENCE_SECONDS = 90.0
PAUSE_SECONDS = 0.3


def what_if(
    job_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="Number of a waiting job.", min=1)
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", "-g", help="GPUs of each replica.")] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", help="Replicas of the job's only task.")
    ] = None,
    gpu_model: Annotated[
        str | None,
        typer.Option(
            "--gpu-model",
            "--model",
            "-m",
            help="GPU models in order of preference, such as V100,P100; or any.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", "-t", help="Time limit, such as 30m, 2h or 1d.")
    ] = None,
    opportunistic: Annotated[
        bool | None,
        typer.Option(
            "--opportunistic/--guaranteed",
            help=(
                "opportunistic: on idle GPUs of others. guaranteed: on guaranteed GPUs of its "
                "virtual cluster."
            ),
        ),
    ] = None,
    priority: Annotated[int | None, typer.Option("--priority", "-p", help="Higher goes first.")] = None,
    vc: Annotated[str | None, typer.Option(help="In this virtual cluster.")] = None,
    submit: Annotated[
        str | None,
        typer.Option(
            "--submit",
            metavar="FILE",
            help="What if the job in this file were submitted; - reads standard input.",
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="With --submit: the job's tenant.")] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", metavar="NODE", help="What if this node were drained. For operators."),
    ] = None,
    add_back: Annotated[
        list[str] | None,
        typer.Option(
            "--add-back", metavar="NODE", help="What if this node returned to service. For operators."
        ),
    ] = None,
    enlarge: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--enlarge",
            metavar="VC MODEL=GPUS",
            help="What if this virtual cluster were guaranteed this many more GPUs. For operators.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Predict when a job would start if something changed, and which jobs would start later. Changes nothing.

    `allot what-if 12 --gpus 4 --time-limit 1h`, `allot what-if --submit train.yaml`, `allot what-if --drain
    node-7`.
    """
    output = Format.json if as_json else output
    guarantee = None if opportunistic is None else "opportunistic" if opportunistic else "guaranteed"
    changes: dict[str, Any] = {
        "gpus": gpus,
        "replicas": replicas,
        "gpu_models": _models(gpu_model),
        "time_limit": time_limit,
        "guarantee": guarantee,
        "priority": priority,
        "virtual_cluster": vc,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if changes and job_id is None:
        raise WrongUse("Say which job is to be different: `allot what-if ID --gpus 4`.")
    if job_id is not None and not (changes or submit or drain or add_back or enlarge):
        raise WrongUse("Say what is to be different: --gpus, --gpu-model, --time-limit, --opportunistic, ...")
    question: dict[str, Any] = {"job": job_id, "changes": changes} if changes else {}
    if submit is not None:
        question["spec"] = _only_spec(submit)
        tenant = question["spec"].pop("tenant", None) if tenant is None else tenant
    if tenant is not None:
        question["tenant"] = tenant
    cluster = {"drain": drain, "add_back": add_back, "enlarge": _enlarged(enlarge)}
    cluster = {name: value for name, value in cluster.items() if value}
    if cluster:
        question["cluster"] = cluster
    if not question:
        raise WrongUse(
            "State what to ask: a job with changes, --submit FILE, --drain NODE, --enlarge VC MODEL=GPUS."
        )
    with connect() as client:
        answer = client.what_if(question, patience_seconds=PATIENCE_SECONDS, pause_seconds=PAUSE_SECONDS)
    if output is not Format.table:
        print_objects(answer, output)
    elif answer["state"] == "done":
        for line in answer_lines(answer):
            print_line(line)
    if answer["state"] != "done":
        raise AllotError(answer["problem"] or "No answer yet; ask again.")


def _models(text: str | None) -> list[str] | str | None:
    if text is None or text == "any":
        return text
    return [part.strip() for part in text.split(",")]


def _only_spec(path: str) -> dict[str, Any]:
    sources = read_sources([path])
    if len(sources) != 1:
        raise WrongUse(f"{path} has {len(sources)} jobs; ask about one at a time.")
    return dict(sources[0].spec)


def _enlarged(words: tuple[str, str] | None) -> list[dict[str, Any]]:
    if words is None:
        return []
    name, text = words
    ((model, gpus),) = pairs([text], "--enlarge").items()
    if not gpus.isdecimal():
        raise WrongUse(f"--enlarge {name} {text!r}: {gpus!r} is not a number of GPUs; expected MODEL=GPUS.")
    return [{"virtual_cluster": name, "gpu_model": model, "more_gpus": int(gpus)}]


def register(app: typer.Typer) -> None:
    app.command(name="what-if")(what_if)
