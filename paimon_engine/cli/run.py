"""Commands for schedulers: run, jobs schema, warm-up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paimon_engine.cli.arguments import SparkOption
from paimon_engine.cli.running import run_job
from paimon_engine.cli.terminal import ProgressStyle, print_json, say, working
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.units import size_text as size

if TYPE_CHECKING:
    from paimon_engine.jobs import Job, Resources

ProgressOption = Annotated[ProgressStyle, typer.Option(help="How to show progress, on standard error.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command(epilog=example + "`paimon-engine run --job job.json --result result.json --progress json`")(run)
    jobs = typer.Typer(help="What jobs look like.", no_args_is_help=True)
    jobs.command(epilog=example + "`paimon-engine jobs schema > job.schema.json`")(schema)
    app.add_typer(jobs, name="jobs")
    app.command("warm-up", epilog=example + "`paimon-engine warm-up /var/cache/paimon-engine`")(warm_up)


def run(
    job: Annotated[str, typer.Option(metavar="FILE", help="The job's JSON; - is standard input.")],
    result: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the result's JSON; standard output by default.")
    ] = None,
    spark: SparkOption = None,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="End when standard input closes: with its parent process."),
    ] = False,
    progress: ProgressOption = ProgressStyle.BAR,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads of a job without Spark.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of an embedded Spark's JVM, such as 2 gb.")
    ] = None,
    spark_conf: Annotated[
        str | None,
        typer.Option(metavar="JSON", envvar="PAIMON_ENGINE_SPARK_CONF", help="Settings of Spark, as a JSON object."),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder for progress, outcome and requests to stop."),
    ] = None,
) -> None:
    """Carry out a job: an action on a table, as JSON. This is what a scheduler calls."""
    from paimon_engine.job_process import job_text
    from paimon_engine.jobs import Job, Resources, decode

    if guard and job == "-":
        raise InvalidArgumentError("--guard watches standard input, so the job must come from a file")
    if guard:
        from paimon_engine.guard import exit_when_stdin_closes

        exit_when_stdin_closes()
    parsed = Job.from_json(sys.stdin.read() if job == "-" else job_text(job))
    given = {"local_cores": threads, "memory": memory, "spark_conf": spark_conf}
    resources = decode(Resources, given, name="run")
    if record is not None:
        _run_recorded(parsed, record, spark, resources, is_guarded=guard)
        return
    done = run_job(parsed, spark=spark, progress=progress, is_kept=True, resources=resources)
    if result is None:
        print_json(done.to_dict())
        return
    # A reader that waits for the file must never read an incomplete one.
    partial = result.with_name(f".{result.name}.partial")
    partial.write_text(done.to_json(), encoding="utf-8")
    partial.replace(result)


def _run_recorded(job: Job, folder: str, spark: str | None, resources: Resources, *, is_guarded: bool) -> None:
    from paimon_engine.guard import exit_when_asked
    from paimon_engine.job_process import run_recorded
    from paimon_engine.job_record import JobRecord

    if not is_guarded:
        exit_when_asked()
    run_recorded(job, JobRecord(folder, job.store_at(folder)), spark, resources)


def schema() -> None:
    """Print the JSON schema of jobs: every action, each of its fields, and its allowed values."""
    from paimon_engine.jobs import job_schema

    print_json(job_schema())


def warm_up(
    folder: Annotated[
        Path, typer.Argument(envvar="PAIMON_ENGINE_CACHE", help="Where to keep 150 MB of loaded Java classes.")
    ],
) -> None:
    """Make embedded Spark start in half the time, wherever PAIMON_ENGINE_CACHE names this folder."""
    from paimon_engine.spark import session

    with working("running Spark once"):
        path = session.warm_up(folder)
    say(f"made {path}, {size(path.stat().st_size)}; set PAIMON_ENGINE_CACHE={folder.absolute()} to use it")
