"""submit: jobs from files, from flags, or from both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
import typer.core

from allot.commands.logs import INTERRUPTED, exit_code_of, say_goes_on, show_log, wait_for
from allot.commands.options import OutputOption, QuietOption, connect
from allot.commands.uploading import UploadOption, bring_code, packed_code
from allot.describe import asked_words, gpus_wanted, problem_lines, task_line, time_limit_words
from allot.errors import FieldProblem, Refused, WrongUse
from allot.output import Format, print_line, print_objects, say
from allot.sbatch import translate
from allot.sbatch_options import Site, qos_fields
from allot.spec_flags import spec_flags, values_of
from allot.specfiles import Over, Source, name_from, pairs, read_sources, read_text

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import CheckAnswer, Job, ShortJob

MOST_JOBS = 1000
#: Files of these names are batch scripts of Slurm.
BATCH_SCRIPTS = (".sbatch", ".slurm", ".sh")
LARGEST_SCRIPT_BYTES = 60 * 1024
#: Where the words after `--` are kept between parsing and running.
COMMAND = "allot.command"


class SubmitCommand(typer.core.TyperCommand):
    """Takes the words after `--` out before the rest is parsed: they are the job's command, and the
    words before are files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[COMMAND] = tuple(args[cut + 1 :])
            args = args[:cut]
        return super().parse_args(ctx, args)


PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map-partition",
        metavar="PARTITION=VC",
        help="For sbatch scripts: the virtual cluster that stands for a partition; may be repeated.",
    ),
]

QosOption = Annotated[
    str | None,
    typer.Option("--qos", metavar="QOS", help="As in Slurm: normal, preemptible, high or low."),
]


def submit(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Specifications in YAML or JSON, or sbatch scripts; - reads standard input.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the job and print what would happen; submit nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until the job ends, and exit with its exit code.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Print the output until the job ends, and exit with its exit code."
        ),
    ] = False,
    upload: UploadOption = None,
    map_partition: PartitionsOption = None,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Submit jobs: `allot submit train.yaml`, `allot submit --gpus 4 -- python train.py --lr 1`.

    Flags override what a file states. If there are several files, or several documents in one file, either
    all are submitted or none.
    """
    partitions = pairs(map_partition or [], "--map-partition")
    sources = specifications(files or [], given_flags(ctx, given), partitions)
    chosen_tenant = take_tenant(sources)
    if follow and (len(sources) > 1 or sources[0].spec.get("array")):
        raise WrongUse("--follow shows the output of one job; use --wait for several.")
    with connect() as client, packed_code(upload) as packed:
        if dry_run:
            raise typer.Exit(_dry_run(client, sources, chosen_tenant, output))
        chosen_tenant = bring_code(client, packed, sources, chosen_tenant)
        submitted = _submit(client, sources, chosen_tenant)
        if not (wait or follow):
            _report(submitted, output, quiet=quiet)
            return
        if quiet:
            _report(submitted, output, quiet=True)
        else:
            say(_summary(submitted))
        ids = [task for job in submitted for task in _tasks_of(client, job)]
    raise typer.Exit(_stay(ids, output, follow=follow, quiet=quiet))


def _tasks_of(client: Client, job: Job | ShortJob) -> list[int]:
    """Its number; for an array's first task, those of all its tasks."""
    if not cast("Job", job).get("array"):
        return [job["id"]]
    return sorted(task["id"] for task in client.jobs(array=job["id"]))


def specifications(files: list[str], flags: Over, partitions: dict[str, str] | None = None) -> list[Source]:
    """What to submit: the files with the flags over them, or one job of flags alone."""
    if files:
        # Asked of the server once, and only for a batch script.
        site = cache(lambda: _site(partitions or {}))
        sources = [source for path in files for source in _read(path, site)]
    elif flags.command:
        sources = [Source("the command line", {"name": name_from(flags.command)})]
    else:
        raise WrongUse(
            "Nothing to submit. Give specification files (- for standard input), "
            "or a command after two dashes: `allot submit --gpus 1 -- python train.py`."
        )
    if len(sources) > MOST_JOBS:
        raise WrongUse(f"{len(sources):,} jobs at once; at most {MOST_JOBS:,} can be submitted all or none.")
    return [Source(source.where, flags.over(source)) for source in sources]


def _read(path: str, site: Callable[[], Site]) -> list[Source]:
    """The specifications of a file; for a batch script, print what became of each line."""
    if not path.endswith(BATCH_SCRIPTS):
        return read_sources([path])
    script = read_text(path, most_bytes=LARGEST_SCRIPT_BYTES)
    made = translate(script, name_from([path]), site())
    for note in made.notes:
        place = f"line {note.line}" if note.line else "script"
        say(f"{path}, {place}: {note.option}: {note.how}: {note.what}")
    if made.blocked:
        raise WrongUse(f"{path} cannot be converted; the lines above state why. Nothing was submitted.")
    return [Source(path, made.spec)]


def _site(partitions: Mapping[str, str]) -> Site:
    with connect() as client:
        return site_of(client, partitions)


def site_of(client: Client, partitions: Mapping[str, str]) -> Site:
    """Return what names in batch scripts mean here; virtual clusters are partitions by their own names."""
    own = {vc["name"]: vc["name"] for vc in client.virtual_clusters()}
    return Site(own | dict(partitions), [tenant["name"] for tenant in client.me()["tenants"]])


def take_tenant(sources: list[Source]) -> str | None:
    """The tenant that the specifications name, taken out of them: a request is for one tenant."""
    named = {str(tenant) for source in sources if (tenant := source.spec.pop("tenant", None)) is not None}
    if len(named) > 1:
        raise WrongUse(
            f"The specifications are for several tenants ({', '.join(sorted(named))}); "
            "submit those of each separately."
        )
    return named.pop() if named else None


def _submit(client: Client, sources: list[Source], tenant: str | None) -> list[Job] | list[ShortJob]:
    if len(sources) == 1:
        return [client.submit(sources[0].spec, tenant=tenant)]
    try:
        return client.submit_many([source.spec for source in sources], tenant=tenant)
    except Refused as error:
        if not error.fields:
            raise
        raise Refused(
            f"None of the {len(sources):,} jobs was submitted.",
            status=error.status,
            code=error.code,
            fields=[_located(problem, sources) for problem in error.fields],
        ) from None


def _located(problem: FieldProblem, sources: list[Source]) -> FieldProblem:
    """`jobs.2.name` -> `train.yaml, document 3: name`."""
    head, _, rest = problem.field.partition(".")
    number, _, field = rest.partition(".")
    if head != "jobs" or not number.isdecimal() or int(number) >= len(sources):
        return problem
    return FieldProblem(f"{sources[int(number)].where}: {field}", problem.problem, problem.expected)


def submitted_line(job: Job) -> str:
    return _summary([job])


def _summary(submitted: list[Job] | list[ShortJob]) -> str:
    if len(submitted) == 1:
        job = submitted[0]
        facts = ""
        if "gpus" in job:
            whole = cast("Job", job)
            if array := whole["array"]:
                return f"Submitted array {job['id']} {job['name']}: {array['size']:,} jobs."
            facts = f": {gpus_wanted(whole)} in {whole['virtual_cluster']}"
        return f"Submitted job {job['id']} {job['name']}{facts}."
    return f"Submitted {len(submitted):,} jobs: {submitted[0]['id']} to {submitted[-1]['id']}."


def _report(submitted: list[Job] | list[ShortJob], output: Format, *, quiet: bool) -> None:
    if quiet:
        for job in submitted:
            print_line(str(job["id"]))
    elif output is not Format.table:
        print_objects(submitted[0] if len(submitted) == 1 else submitted, output)
    else:
        print_line(_summary(submitted))
        if len(submitted) == 1:
            _print_asked(cast("Job", submitted[0])["spec"])
        job_id = submitted[0]["id"]
        if len(submitted) == 1 and cast("Job", submitted[0])["array"]:
            print_line(f"  allot ls --array {job_id:<15}  how they are doing")
            print_line(f"  allot why {job_id:<22}  why the first waits")
            print_line(f"  allot cancel --filter array={job_id:<4}  stop all of them")
        elif len(submitted) == 1:
            print_line(f"  allot why {job_id:<8}  why it waits, and its place in the queue")
            print_line(f"  allot logs -f {job_id:<4}  its output as it comes")
            print_line(f"  allot cancel {job_id:<5}  stop it")
        else:
            print_line("  allot ls --mine       how they are doing")
            print_line(f"  allot why {job_id:<10}  why the first waits")
            print_line(f"  allot cancel {job_id:<7}  stop the first")


def _stay(job_ids: list[int], output: Format, *, follow: bool, quiet: bool) -> int:
    """Stay until the jobs have ended and return what to exit with."""
    with connect(patient=True) as client:
        if follow:
            try:
                show_log(client, job_ids[0], follow=True)
            except KeyboardInterrupt:
                say_goes_on(job_ids)
                return INTERRUPTED
            jobs = [client.job(job_ids[0])]
        else:
            jobs = wait_for(client, job_ids)
    if output is not Format.table and not quiet:
        print_objects(jobs[0] if len(jobs) == 1 else jobs, output)
    return next((code for code in map(exit_code_of, jobs) if code), 0)


def _dry_run(client: Client, sources: list[Source], tenant: str | None, output: Format) -> int:
    """Print what would happen to each; 0 when all would be taken."""
    checks = [client.check(source.spec, tenant=tenant) for source in sources]
    if output is not Format.table:
        print_objects(checks[0] if len(checks) == 1 else checks, output)
    else:
        for source, check in zip(sources, checks, strict=True):
            _print_check(source, check)
        say("Nothing was submitted.")
    return 0 if all(check["ok"] for check in checks) else 1


def _print_check(source: Source, check: CheckAnswer) -> None:
    name = source.spec.get("name", source.where)
    if check["ok"]:
        tasks = check["normalised"]["tasks"] if check["normalised"] else []
        print_line(f"{name}: would be taken, {asked_words(check['gpus'], tasks)}. {check['message']}")
        _print_asked(check["normalised"] or {})
    else:
        fields = [FieldProblem(**problem) for problem in check["fields"]]
        for line in problem_lines(f"{name}: would be refused. ", check["message"], fields):
            print_line(line)
    for warning in check["warnings"]:
        print_line(f"  warning: {warning}")


def _print_asked(spec: Mapping[str, Any]) -> None:
    """Print what the server took the specification for, defaults filled in."""
    for task in spec.get("tasks", []):
        print_line(f"  {task_line(task)}")
    print_line(f"  time limit: {time_limit_words(spec)}")


def with_spec_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command with `ctx`, `files` and `**given` take the flags of the specification, first of all."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    # Flags of the specification come first, as they did when each was written down here.
    files = [one for one in own if one.name in ("ctx", "files")]
    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one not in files]
    qos = inspect.Parameter("qos", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=QosOption)
    parameters = [*files, *(flag.parameter() for flag in spec_flags()), qos, *others]
    setattr(command, "__signature__", signature.replace(parameters=parameters))  # noqa: B010
    return command


def given_flags(ctx: typer.Context, given: Mapping[str, Any]) -> Over:
    """What flags and the words after `--` put over the specification."""
    of_one_task = {flag.where: flag.names[0] for flag in spec_flags() if flag.is_of_one_task}
    values = values_of(given)
    if given.get("qos") is not None:
        values = {**qos_fields(given["qos"]), **values}
    return Over(values, ctx.meta.get(COMMAND, ()), of_one_task)


def register(app: typer.Typer) -> None:
    app.command(cls=SubmitCommand)(with_spec_flags(submit))
