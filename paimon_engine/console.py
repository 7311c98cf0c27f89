"""What the command line prints: grids, rows, results as JSON, progress."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid

from paimon_engine.progress import OnProgress, Progress

if TYPE_CHECKING:
    import pyarrow as pa

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


# ── progress ────────────────────────────────────────────────────────────────────────────────────


def tell(progress: Progress, style: ProgressStyle) -> None:
    """A line for a machine, where that is the style."""
    if style is ProgressStyle.JSON:
        line = {"stage": progress.stage, "done": progress.done, "total": progress.total}
        print(f"@paimon {json.dumps(line)}", file=sys.stderr, flush=True)


@contextmanager
def progress_listener(style: ProgressStyle) -> Iterator[OnProgress | None]:
    """A listener that shows bars on a terminal, or prints a line of JSON for each step."""
    if style is ProgressStyle.JSON:
        yield lambda progress: tell(progress, style)
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


def say(details: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Prints the details as JSON, or one line for people."""
    if as_json:
        print_json(details)
    else:
        out.print(text, highlight=False)


def print_json(value: Any) -> None:
    """Prints a value as JSON."""
    out.print_json(json.dumps(value, default=str))


def renamed(table: pa.Table, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of a table with the columns chosen and titled."""
    return [{title: row[name] for name, title in names.items()} for row in table.select(list(names)).to_pylist()]


def print_grid(rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str, whole: pa.Table | None = None) -> None:
    """A grid on the terminal; as JSON all columns of `whole` where given."""
    if as_json:
        print_json(rows if whole is None else whole.to_pylist())
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


def bucket_row(bucket: Mapping[str, Any]) -> dict[str, Any]:
    """A bucket of a compaction result as a row for people."""
    partition = ", ".join(f"{name}={value}" for name, value in bucket["partition"].items()) or "-"
    after = bucket["files_after"]
    return {
        "partition": partition,
        "bucket": str(bucket["bucket"]),
        "files": str(bucket["files_before"]) if after is None else f"{bucket['files_before']} → {after}",
        "size": size_text(bucket["bytes_before"]) + ("" if after is None else f" → {size_text(bucket['bytes_after'])}"),
        "memory": size_text(bucket["memory_bytes"]),
        "what": bucket["skipped"] or bucket["reason"] or "-",
    }


def size_text(size_bytes: int) -> str:
    """A size as people read it."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def short_path(path: str) -> str:
    """The last two parts of a path."""
    return "/".join(path.rsplit("/", 2)[-2:])


def show_rows(reader: pa.RecordBatchReader, limit: int) -> None:
    """The first rows as a grid; says so if there are more."""
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


def store_rows(reader: pa.RecordBatchReader, limit: int | None, output: Output, to: Path | None) -> None:
    """Rows to a file or standard output."""
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
