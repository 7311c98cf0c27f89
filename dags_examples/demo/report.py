"""What the demo prints at its end: from what the tasks returned, and from the table itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from dags_examples.demo.follow import Day
from dags_examples.settings import LAKE
from paimon_engine import Catalog
from paimon_engine import Table as LakeTable

SAMPLE = 5
MEGA = 1 << 20


def print_report(console: Console, days: Sequence[Day], *, airflow_start_s: float, total_s: float) -> None:
    """Prints days, tags, time travel, expiry and times; ends with the line that opens the UI."""
    lake = Catalog(LAKE["warehouse"]).table(LAKE["table"])
    console.print()
    console.print(_days(days))
    console.print(_tags(lake))
    console.print(_time_travel(lake, days[0].key, days[1].key))
    for line in _expiry(lake, days):
        console.print(line)
    console.print()
    console.print(_times(days, airflow_start_s, total_s))
    console.print(f"The table is in {lake.path}", soft_wrap=True)
    console.print("\n[bold]make ui[/bold] opens the Airflow UI on these runs")


def _grid(title: str, *columns: str, texts: int = 1) -> Table:
    """An empty table whose first columns hold texts and whose others hold numbers."""
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        grid.add_column(name, justify="left" if number < texts else "right")
    return grid


def _days(days: Sequence[Day]) -> Table:
    grid = _grid(
        f"{LAKE['table']}, day by day: before and after compaction",
        "day", "rows written", "snapshot", "rows", "→", "files", "→", "bytes", "→",
    )  # fmt: skip
    for day in days:
        write, compact = (day.tasks[task].returned["details"] for task in ("write", "compact"))
        grid.add_row(
            day.key,
            f"{write['rows']:,}",
            f"{write['snapshot_id']} → {compact['snapshot_id']}",
            *(f"{compact[name]:,}" for name in (
                "rows_before", "rows_after", "files_before", "files_after", "bytes_before", "bytes_after"
            )),
        )  # fmt: skip
    return grid


def _tags(lake: LakeTable) -> Table:
    grid = _grid("\nTags", "tag", "snapshot", "rows", "landing not known")
    for tag in lake.tags().to_pylist():
        rows = lake.to_arrow(columns=["arr_delay"], tag=tag["tag_name"])
        open_flights = rows["arr_delay"].null_count
        grid.add_row(tag["tag_name"], str(tag["snapshot_id"]), f"{rows.num_rows:,}", f"{open_flights:,}")
    return grid


def _time_travel(lake: LakeTable, first: str, second: str) -> Table:
    """The same flights at two tags: the second knows when they landed."""
    columns = ["time_hour", "carrier", "flight", "dest", "dep_delay", "arr_delay"]
    keys = columns[:3]
    earlier = lake.to_arrow(columns=columns, tag=first).sort_by([(name, "ascending") for name in keys])
    later = lake.to_arrow(columns=columns, tag=second)
    both = earlier.slice(0, SAMPLE).join(
        later.select([*keys, "arr_delay"]), keys=keys, join_type="inner", right_suffix=" later"
    )
    grid = _grid(
        "\nTime travel: the same flights at two tags",
        "scheduled", "flight", "to", "left late, min", f"landed late at {first}", f"landed late at {second}",
        texts=3,
    )  # fmt: skip
    for row in both.sort_by([(name, "ascending") for name in keys]).to_pylist():
        grid.add_row(
            f"{row['time_hour']:%Y-%m-%d %H:%M}",
            f"{row['carrier']} {row['flight']}",
            row["dest"],
            _minutes(row["dep_delay"]),
            _minutes(row["arr_delay"]),
            _minutes(row["arr_delay later"]),
        )
    return grid


def _minutes(value: int | None) -> str:
    return "not known" if value is None else f"{value:+d}"


def _expiry(lake: LakeTable, days: Sequence[Day]) -> list[str]:
    results = [day.tasks["expire"].returned["details"] for day in days]
    expired = [snapshot for result in results for snapshot in result["expired_snapshots"]]
    files = sum(result["files_deleted"] for result in results)
    freed = sum(result["bytes_deleted"] for result in results)
    snapshots = lake.snapshots()["snapshot_id"].to_pylist()
    kept = {tag["tag_name"]: tag["snapshot_id"] for tag in lake.tags().to_pylist() if tag["snapshot_id"] in expired}
    latest = set(lake.files()["file_path"].to_pylist())
    held: dict[str, int] = {}
    for tag in kept:
        for row in lake.files(tag=tag).to_pylist():
            if row["file_path"] not in latest:
                held[row["file_path"]] = row["file_size_in_bytes"]
    removed = f"{len(expired)} snapshots and deleted {files} files, {_size(freed)}"
    kept_ids = ", ".join(map(str, kept.values()))
    alone = f"{len(held)} data files, {_size(sum(held.values()))}, are there for them alone"
    return [
        f"\nExpiry removed {removed}; left is snapshot {', '.join(map(str, snapshots))}.",
        f"Tags keep {len(kept)} of the removed ones readable, snapshots {kept_ids}; {alone}.",
    ]


def _size(count: float) -> str:
    return f"{count / MEGA:.1f} MiB" if count >= MEGA else f"{count / 1024:.0f} KiB"


def _times(days: Sequence[Day], airflow_start_s: float, total_s: float) -> Table:
    on_spark = [day.tasks[task] for day in days for task in ("write", "compact")]
    in_process = [day.tasks[task] for day in days for task in ("tag", "expire")]
    others = [day.tasks[task] for day in days for task in ("stage", "report")]

    def own(tasks: Sequence[Any]) -> float:
        return sum(task.returned["seconds"] for task in tasks)

    spark_s = sum(task.returned["startup_seconds"] for task in on_spark)
    grid = _grid("Where the time went (tasks run side by side, so their seconds add up to more)", "", "seconds")
    for name, seconds in (
        ("everything", total_s),
        ("Airflow's start", airflow_start_s),
        (f"{len(on_spark)} starts of embedded Spark", spark_s),
        (f"{len(on_spark)} writes and compactions on it, its first tasks included", own(on_spark)),
        (f"{len(in_process)} tags and expiries, without Spark", own(in_process)),
        ("staging files and reports", sum(task.seconds for task in others)),
        (
            "Airflow's share of the tasks: processes and imports",
            sum(task.seconds for task in [*on_spark, *in_process]) - spark_s - own(on_spark) - own(in_process),
        ),
    ):
        grid.add_row(name, f"{seconds:.1f}")
    return grid
