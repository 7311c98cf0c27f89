"""The command line: `paimon-engine COMMAND TABLE`.

TABLE is a table's directory, or `database.table` together with `--warehouse`. Tables and progress bars go through
rich: results to standard output, progress and errors to standard error.
Exit code 0: done; 1: failed; 2: called wrongly.
"""

from __future__ import annotations

import csv
import json
import logging
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid

from paimon_engine.errors import InvalidArgumentError, PaimonError
from paimon_engine.progress import OnProgress, Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_engine.api import Catalog, Table
    from paimon_engine.executor import Executor
    from paimon_engine.jobs import Job

app = typer.Typer(
    name="paimon-engine",
    help="Look at and maintain Apache Paimon tables: read, compact, tag, expire, roll back.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
tag_app = typer.Typer(help="Create and delete tags.", no_args_is_help=True)
app.add_typer(tag_app, name="tag")

out = Console()
err = Console(stderr=True)


class Output(StrEnum):
    """How rows are printed or stored."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class ProgressStyle(StrEnum):
    """How progress is told."""

    BAR = "bar"
    JSON = "json"
    NONE = "none"


TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Directory of a table, or database.table together with --warehouse.")
]
WarehouseOption = Annotated[
    str | None, typer.Option("--warehouse", "-w", envvar="PAIMON_WAREHOUSE", help="Address of the warehouse.")
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage", "-s", metavar="KEY=VALUE", help="Option of the file system; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
SparkOption = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Run tasks on Spark: local[*], or sc://host for Connect."),
]


# ── commands that look ──────────────────────────────────────────────────────────────────────────


@app.command(
    epilog="Example: `paimon-engine read /lake/db.db/t --where \"day = '2013-01-01'\" --columns day,carrier --limit 5`"
)
def read(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas.")] = None,
    where: Annotated[
        str | None, typer.Option(help="SQL condition, e.g. \"delay > 15 AND carrier IN ('UA', 'DL')\".")
    ] = None,
    snapshot: Annotated[int | None, typer.Option(help="Read as of this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(help="Read as of this tag.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="Read as of this time: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many rows (default 20 for a table on screen).")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="What to make of the rows.")] = Output.TABLE,
    to: Annotated[Path | None, typer.Option(help="File to write; needed for parquet.")] = None,
) -> None:
    """Read rows, merged, now or as of a snapshot, tag or time."""
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    if output is Output.PARQUET and to is None:
        raise InvalidArgumentError("parquet needs a file to go to: add --to FILE")
    reader = _table(table, warehouse, storage).to_batches(
        chosen, where, snapshot, tag, None if timestamp is None else _moment(timestamp)
    )
    if output is Output.TABLE and to is None:
        _show_rows(reader, 20 if limit is None else limit)
    else:
        _store_rows(reader, limit, output, to)


@app.command()
def tables(
    warehouse: Annotated[str, typer.Argument(envvar="PAIMON_WAREHOUSE", help="Address of the warehouse.")],
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tables of a warehouse, with their newest snapshot."""
    catalog = _catalog(warehouse, storage)
    rows = []
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            table = catalog.table(f"{database}.{name}")
            keys = ", ".join(table.schema.primary_keys) or "-"
            rows.append({"table": f"{database}.{name}", "primary key": keys, "snapshot": table.latest_snapshot_id()})
    _print(rows, as_json=as_json, empty=f"no tables in {warehouse}")


@app.command()
def snapshots(
    table: TableArgument, warehouse: WarehouseOption = None, storage: StorageOption = None, as_json: JsonOption = False
) -> None:
    """List the snapshots of a table."""
    names = {
        "snapshot_id": "id", "commit_kind": "kind", "commit_time": "time (UTC)",
        "total_record_count": "records", "delta_record_count": "change", "commit_user": "user",
    }  # fmt: skip
    found = _table(table, warehouse, storage).snapshots()
    _print(_renamed(found, names), as_json=as_json, empty="no snapshots yet", whole=found)


@app.command()
def tags(
    table: TableArgument, warehouse: WarehouseOption = None, storage: StorageOption = None, as_json: JsonOption = False
) -> None:
    """List the tags of a table."""
    names = {"tag_name": "tag", "snapshot_id": "snapshot", "commit_time": "committed (UTC)", "record_count": "records"}
    found = _table(table, warehouse, storage).tags()
    _print(_renamed(found, names), as_json=as_json, empty="no tags yet", whole=found)


@app.command()
def files(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    snapshot: Annotated[int | None, typer.Option(help="Files of this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(help="Files of this tag.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the live data files of a table."""
    names = {
        "partition": "partition", "bucket": "bucket", "level": "level", "record_count": "records",
        "file_size_in_bytes": "bytes", "min_key": "min key", "max_key": "max key",
    }  # fmt: skip
    found = _table(table, warehouse, storage).files(snapshot, tag)
    _print(_renamed(found, names), as_json=as_json, empty="no data files", whole=found)


# ── commands that change ────────────────────────────────────────────────────────────────────────


@app.command(epilog="Example: `paimon-engine compact /lake/db.db/t --full --dry-run`")
def compact(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into the highest level.")] = False,
    where: Annotated[str | None, typer.Option(help="Condition over partition columns.")] = None,
    dry_run: DryRunOption = False,
    spark: SparkOption = None,
    progress: Annotated[ProgressStyle, typer.Option(help="How to tell progress.")] = ProgressStyle.BAR,
    as_json: JsonOption = False,
) -> None:
    """Merge sorted runs and small files."""
    from paimon_engine.actions.compact import Compact

    job = _job(table, warehouse, storage, Compact(full, where, dry_run))
    details = _run(job, spark, progress)
    if as_json:
        _print_json(details)
        return
    _print([_bucket_row(bucket) for bucket in details["buckets"]], as_json=False, empty="the table has no data files")
    out.print(
        f"{details['status']}: {details['files_before']:,} → {details['files_after']:,} files, "
        f"{_size(details['bytes_before'])} → {_size(details['bytes_after'])}, "
        f"{details['rows_before']:,} → {details['rows_after']:,} records in {details['seconds']:.1f} s"
    )


@tag_app.command("create", epilog="Example: `paimon-engine tag create /lake/db.db/t 2013-01-01`")
def tag_create(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="Name of the tag.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    snapshot: Annotated[int | None, typer.Option(help="Snapshot to name; the latest by default.")] = None,
    if_exists: Annotated[str, typer.Option(help="verify, ignore, replace or error.")] = "verify",
    as_json: JsonOption = False,
) -> None:
    """Name a snapshot, so that expiry leaves it alone. Safe to repeat."""
    from paimon_engine.actions.tags import CreateTag

    details = _run(_job(table, warehouse, storage, CreateTag(name, snapshot, if_exists)), None, ProgressStyle.NONE)  # type: ignore[arg-type]
    _say(details, f"{details['status']}: tag {name} on snapshot {details['snapshot_id']}", as_json=as_json)


@tag_app.command("delete")
def tag_delete(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="Name of the tag.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a tag, and the files that only it kept."""
    from paimon_engine.actions.tags import DeleteTag

    details = _run(_job(table, warehouse, storage, DeleteTag(name)), None, ProgressStyle.NONE)
    text = f"{details['status']}: tag {name}, {details['files_deleted']} files, {_size(details['bytes_deleted'])}"
    _say(details, text, as_json=as_json)


@app.command(epilog="Example: `paimon-engine expire /lake/db.db/t --retain-max 10 --dry-run`")
def expire(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    retain_max: Annotated[int | None, typer.Option(min=1, help="Keep at most so many snapshots.")] = None,
    retain_min: Annotated[int | None, typer.Option(min=1, help="Keep at least so many snapshots.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only older ones: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete old snapshots and the files that nothing else reaches. Tags keep theirs."""
    from paimon_engine.actions.expire_snapshots import ExpireSnapshots

    limit = None if older_than is None else _moment(older_than)
    job = _job(table, warehouse, storage, ExpireSnapshots(retain_max, retain_min, limit, dry_run))
    details = _run(job, None, ProgressStyle.NONE)
    if as_json:
        _print_json(details)
        return
    gone = details["expired_snapshots"]
    if details["deleted"]:
        rows = [
            {"file": _short(item["path"]), "bytes": item["size_bytes"], "why": item["why"]}
            for item in details["deleted"]
        ]
        _print(rows, as_json=False, empty="")
    for reason in details["stopped"]:
        err.print(f"left alone: {reason}", style="yellow", highlight=False)
    out.print(
        f"{details['status']}: {len(gone)} snapshots, {details['files_deleted']:,} files, "
        f"{_size(details['bytes_deleted'])}; {len(details['kept_by_tags'])} tags keep older files"
    )


@app.command()
def rollback(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    snapshot: Annotated[int | None, typer.Option(help="Snapshot to go back to.")] = None,
    tag: Annotated[str | None, typer.Option(help="Tag to go back to.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier snapshot or tag the latest. What came after it is deleted."""
    from paimon_engine.actions.rollback import Rollback

    if not yes:
        typer.confirm(f"Delete everything that came after {tag or f'snapshot {snapshot}'}?", abort=True, err=True)
    details = _run(_job(table, warehouse, storage, Rollback(snapshot, tag)), None, ProgressStyle.NONE)
    removed = len(details["removed_snapshots"])
    text = f"{details['status']}: snapshot {details['snapshot_id']} is the latest, {removed} removed"
    _say(details, text, as_json=as_json)


@app.command()
def run(
    job: Annotated[str, typer.Option(help="File with a job's JSON, or - for standard input.")],
    result: Annotated[Path | None, typer.Option(help="File for the result's JSON; standard output by default.")] = None,
    spark: SparkOption = None,
    guard: Annotated[bool, typer.Option("--guard", help="End as soon as standard input is closed.")] = False,
    progress: Annotated[ProgressStyle, typer.Option(help="How to tell progress.")] = ProgressStyle.BAR,
) -> None:
    """Carry out a job: an action on a table, as JSON. This is what a scheduler calls."""
    from paimon_engine.jobs import Job
    from paimon_engine.jobs import run as run_job

    if guard and job == "-":
        raise InvalidArgumentError("--guard watches standard input, so the job must come from a file")
    text = sys.stdin.read() if job == "-" else Path(job).read_text(encoding="utf-8")
    parsed = Job.from_json(text)
    if guard:
        from paimon_engine.guard import exit_when_stdin_closes

        exit_when_stdin_closes()
    with _executor(spark, progress) as executor, _progress(progress) as listener:
        done = run_job(parsed, executor, listener)
    if result is None:
        out.print_json(done.to_json())
    else:
        result.write_text(done.to_json(), encoding="utf-8")


# ── opening ─────────────────────────────────────────────────────────────────────────────────────


def _options(storage: Sequence[str] | None) -> dict[str, str]:
    options = {}
    for item in storage or ():
        key, sign, value = item.partition("=")
        if not sign:
            raise InvalidArgumentError(f"--storage {item!r}: write KEY=VALUE")
        options[key] = value
    return options


def _catalog(warehouse: str, storage: Sequence[str] | None) -> Catalog:
    from paimon_engine.api import Catalog

    return Catalog(warehouse, storage_options=_options(storage))


def _table(table: str, warehouse: str | None, storage: Sequence[str] | None) -> Table:
    from paimon_engine.api import open_table

    if _is_path(table):
        return open_table(table, storage_options=_options(storage))
    return _catalog(_needed(warehouse, table), storage).table(table)


def _is_path(table: str) -> bool:
    return "/" in table or Path(table).is_dir()


def _needed(warehouse: str | None, table: str) -> str:
    if warehouse is None:
        raise InvalidArgumentError(f"{table!r} is no directory; add --warehouse, or give the table's directory")
    return warehouse


def _job(table: str, warehouse: str | None, storage: Sequence[str] | None, action: Any) -> Job:
    from paimon_engine.jobs import Job, StorageRef, TableRef

    ref = TableRef(path=table) if _is_path(table) else TableRef(warehouse=_needed(warehouse, table), name=table)
    return Job(ref, action, f"cli-{uuid.uuid4()}", StorageRef(_options(storage)))


def _run(job: Job, spark: str | None, progress: ProgressStyle) -> Mapping[str, Any]:
    from paimon_engine.jobs import run as run_job

    with _executor(spark, progress) as executor, _progress(progress) as listener:
        return run_job(job, executor, listener).details


@contextmanager
def _executor(spark: str | None, progress: ProgressStyle) -> Iterator[Executor]:
    """Threads of this process, or a Spark session that lives as long as the command."""
    from paimon_engine.executor import LocalExecutor

    if spark is None:
        yield LocalExecutor()
        return
    from paimon_engine.spark.executor import SparkExecutor
    from paimon_engine.spark.session import connect_session, local_session

    with ExitStack() as stack:
        if spark.startswith("sc://"):
            session = connect_session(spark)
            stack.callback(session.stop)
        else:
            _tell(Progress("start Spark", 0, 1), progress)
            session = stack.enter_context(local_session(cores=_cores(spark), quick_start=True))
            _tell(Progress("start Spark", 1, 1), progress)
        yield SparkExecutor(session)


def _cores(master: str) -> int | None:
    """Cores of `local[4]`; None for `local[*]`.

    Raises: InvalidArgumentError.
    """
    inside = master.removeprefix("local").strip("[]")
    if not master.startswith("local") or not (inside in ("", "*") or inside.isdigit()):
        raise InvalidArgumentError(f"--spark {master!r}: use local[*], local[N], or sc://host:port for Spark Connect")
    return 1 if inside == "" else None if inside == "*" else int(inside)


def _moment(text: str) -> int:
    """Epoch milliseconds of a number or an ISO time (local unless it names a zone)."""
    from datetime import datetime

    if text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError as error:
        raise InvalidArgumentError(f"{text!r} is no time; write epoch milliseconds or 2013-01-01T12:00") from error


# ── progress ────────────────────────────────────────────────────────────────────────────────────


def _tell(progress: Progress, style: ProgressStyle) -> None:
    if style is ProgressStyle.JSON:
        line = {"stage": progress.stage, "done": progress.done, "total": progress.total}
        print(f"@paimon {json.dumps(line)}", file=sys.stderr, flush=True)


@contextmanager
def _progress(style: ProgressStyle) -> Iterator[OnProgress | None]:
    """A listener that shows bars on a terminal, or prints a line of JSON for each step."""
    if style is ProgressStyle.JSON:
        yield lambda progress: _tell(progress, style)
        return
    if style is ProgressStyle.NONE or not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=err, transient=True) as bars:
        known: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            if progress.stage not in known:
                known[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            bars.update(known[progress.stage], completed=progress.done, total=progress.total)

        yield show


# ── printing ────────────────────────────────────────────────────────────────────────────────────


def _say(details: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        _print_json(details)
    else:
        out.print(text, highlight=False)


def _print_json(value: Any) -> None:
    out.print_json(json.dumps(value, default=str))


def _renamed(table: pa.Table, names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{title: row[name] for name, title in names.items()} for row in table.select(list(names)).to_pylist()]


def _print(rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str, whole: pa.Table | None = None) -> None:
    """A grid on the terminal; as JSON all columns of `whole` where given."""
    if as_json:
        _print_json(rows if whole is None else whole.to_pylist())
        return
    if not rows:
        out.print(empty, highlight=False)
        return
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for name in rows[0]:
        numeric = all(isinstance(row[name], int | float | None) for row in rows)
        grid.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(value) for value in row.values()))
    out.print(grid, highlight=False)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    return text.split(".", maxsplit=1)[0] if type(value).__name__ == "datetime" else text


def _bucket_row(bucket: Mapping[str, Any]) -> dict[str, Any]:
    partition = ", ".join(f"{name}={value}" for name, value in bucket["partition"].items()) or "-"
    after = bucket["files_after"]
    return {
        "partition": partition,
        "bucket": str(bucket["bucket"]),
        "files": str(bucket["files_before"]) if after is None else f"{bucket['files_before']} → {after}",
        "size": _size(bucket["bytes_before"]) + ("" if after is None else f" → {_size(bucket['bytes_after'])}"),
        "memory": _size(bucket["memory_bytes"]),
        "what": bucket["skipped"] or bucket["reason"] or "-",
    }


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _short(path: str) -> str:
    """The last two parts of a path."""
    return "/".join(path.rsplit("/", 2)[-2:])


def _show_rows(reader: pa.RecordBatchReader, limit: int) -> None:
    rows = list(_first(reader, limit + 1))
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for field in reader.schema:
        grid.add_column(field.name, overflow="fold")
    for row in rows[:limit]:
        grid.add_row(*(_value(value) for value in row.values()))
    out.print(grid, highlight=False)
    if len(rows) > limit:
        err.print(f"the first {limit} rows; --limit N shows more, --output csv|json|parquet all", style="dim")


def _value(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _first(reader: pa.RecordBatchReader, limit: int | None) -> Iterator[dict[str, Any]]:
    left = sys.maxsize if limit is None else limit
    for batch in reader:
        if left <= 0:
            return
        yield from batch.slice(0, left).to_pylist()
        left -= batch.num_rows


def _store_rows(reader: pa.RecordBatchReader, limit: int | None, output: Output, to: Path | None) -> None:
    if output is Output.PARQUET:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(to, reader.schema) as writer:
            for batch in _batches(reader, limit):
                writer.write_batch(batch)
        return
    with ExitStack() as stack:
        sink = sys.stdout if to is None else stack.enter_context(to.open("w", encoding="utf-8", newline=""))
        write: Callable[[Mapping[str, Any]], Any]
        if output is Output.CSV or (output is Output.TABLE and to is not None):
            writer_ = csv.DictWriter(sink, reader.schema.names)
            writer_.writeheader()
            write = writer_.writerow
        else:

            def write(row: Mapping[str, Any]) -> None:
                sink.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")

        for row in _first(reader, limit):
            write(row)


def _batches(reader: pa.RecordBatchReader, limit: int | None) -> Iterable[pa.RecordBatch]:
    left = sys.maxsize if limit is None else limit
    for batch in reader:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def main() -> None:
    """Entry point: errors of the engine become one line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except InvalidArgumentError as error:
        err.print(f"error: {error}", style="red", highlight=False, markup=False)
        sys.exit(2)
    except PaimonError as error:
        err.print(f"error: {error}", style="red", highlight=False, markup=False)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has seen enough.
        sys.stderr.close()
        sys.exit(0)
