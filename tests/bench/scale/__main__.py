"""Time and memory of work on metadata, by the size of a table: `python -m tests.bench.scale [--sizes N ...] [GROUP ...]`.

Each step runs in a process of its own, on metadata that is written as it would be by real commits; where only metadata
is looked at, the data files do not exist. Printed are CPU seconds, wall seconds and the peak of the process in MB, by
size, and the exponent from one size to the next (1.0: in proportion). `--large` adds the largest sizes, which take half
an hour to make; `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.scale import tables

Act = Callable[[], Any]


# ── steps ───────────────────────────────────────────────────────────────────────────────────────


def _plan(where: str | None = None) -> Callable[[str, int], Act]:
    def prepared(warehouse: str, size: int) -> Act:
        from paimon_engine.predicate import parse_where
        from paimon_engine.table.read.scan import plan_splits
        from paimon_engine.table.state.snapshots import latest_snapshot

        table = tables.handle(warehouse)
        condition = None if where is None else parse_where(where)
        return lambda: plan_splits(table, latest_snapshot(table), condition)

    return prepared


def _write_row(warehouse: str, size: int) -> Act:
    table, rows = tables.opened(warehouse), tables.rows_of([5])
    return lambda: table.write(rows)


def _system_table(name: str) -> Callable[[str, int], Act]:
    def prepared(warehouse: str, size: int) -> Act:
        from paimon_engine import Catalog

        table = Catalog(warehouse).table(f"db.t${name}")
        return table.to_arrow

    return prepared


def _expire(warehouse: str, size: int) -> Act:
    table = tables.opened(warehouse)
    return lambda: table.expire_snapshots(retain_max=1, retain_min=1)


def _delete_tag(warehouse: str, size: int) -> Act:
    table = tables.opened(warehouse)
    name = table.tag_names()[size // 2]
    return lambda: table.delete_tag(name)


def _verify_metadata(warehouse: str, size: int) -> Act:
    table = tables.opened(warehouse)

    def act() -> None:
        found = table.verify(depth="metadata")
        if found.status != "sound":
            raise RuntimeError(f"a made-up table is {found}")

    return act


def _remove_orphans(warehouse: str, size: int) -> Act:
    table = tables.opened(warehouse)

    def act() -> None:
        done = table.remove_orphan_files()
        if done.status != "deleted":
            raise RuntimeError(f"no orphans are removed: {done}")

    return act


def _commits(keep: bool) -> Callable[[str, int], Act]:
    """So many commits of a row: what the last hundred cost; with `keep` every tenth is compacted and expired."""

    def prepared(warehouse: str, size: int) -> Act:
        table = tables.small_table(warehouse)

        def some(begin: int, end: int) -> None:
            for number in range(begin, end):
                table.write(tables.small_row(number))
                if keep and number % 10 == 0:
                    table.compact(full=True)
                    table.expire_snapshots(retain_max=10, retain_min=1)

        some(0, size - 100)
        return lambda: some(size - 100, size)

    return prepared


class Step(NamedTuple):
    """What is measured; one that changes the table comes last."""

    name: str
    prepare: Callable[[str, int], Act]


class Group(NamedTuple):
    """Steps on tables of several sizes; the further sizes take long to make."""

    what: str
    make: Callable[[str, int], None]
    sizes: tuple[int, ...]
    large: tuple[int, ...]
    steps: tuple[Step, ...]


def _nothing(warehouse: str, size: int) -> None:
    """The step makes its table."""


_PLANS: Final = (Step("plan", _plan()), Step("plan of one of 100 partitions", _plan("day = 7")))
GROUPS: Final = {
    "append": Group(
        "files",
        tables.append_table,
        (10_000, 100_000),
        (1_000_000,),
        (*_PLANS, Step("write of one row", _write_row)),
    ),
    "keyed": Group(
        "files",
        tables.keyed_table,
        (10_000, 100_000),
        (1_000_000,),
        (*_PLANS, Step("plan of one key", _plan("id = 7")), Step("write of one row", _write_row)),
    ),
    "partitions": Group(
        "partitions",
        tables.partitioned_table,
        (10_000, 100_000),
        (),
        (
            Step("plan", _plan()),
            Step("plan of one partition", _plan("day = 7")),
            Step("list partitions", _system_table("partitions")),
            Step("write of one row", _write_row),
        ),
    ),
    "snapshots": Group(
        "snapshots", tables.many_snapshots, (1_000, 10_000), (), (Step("list snapshots", _system_table("snapshots")),)
    ),
    "expiry": Group("snapshots", tables.history, (100, 1_000), (), (Step("expire all but one", _expire),)),
    "tagged": Group("tags", tables.tagged_history, (100, 1_000), (), (Step("expire all but one", _expire),)),
    "tags": Group(
        "tags",
        tables.expired_tagged_history,
        (100, 1_000),
        (),
        (Step("list tags", _system_table("tags")), Step("delete a tag", _delete_tag)),
    ),
    "checks": Group(
        "files", tables.table_with_tags, (10_000, 100_000), (), (Step("verify metadata, 50 tags", _verify_metadata),)
    ),
    "orphans": Group("files", tables.with_orphans, (20_000, 200_000), (), (Step("remove orphans", _remove_orphans),)),
    "commits": Group(
        "commits", _nothing, (200, 2_000), (), (Step("100 commits, not maintained", _commits(keep=False)),)
    ),
    "maintained": Group(
        "commits", _nothing, (1_000,), (10_000,), (Step("100 commits, maintained", _commits(keep=True)),)
    ),
}


# ── measuring ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Measured:
    """Of one step on a table of a size: seconds, and the peak of its process in MB."""

    group: str
    step: str
    what: str
    size: int
    cpu_s: float
    wall_s: float
    peak_mb: int
    exponent: float | None = None


def _carry_out(group: str, step: str, warehouse: str, size: str) -> None:
    [prepare] = [one.prepare for one in GROUPS[group].steps if one.name == step]
    act = prepare(warehouse, int(size))
    cpu, wall = time.process_time(), time.monotonic()
    act()
    # `getrusage` would count the peak of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_mb = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024
    print(json.dumps({"cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - wall, "peak_mb": peak_mb}))


def _in_a_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.bench.scale", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def measured(name: str, sizes: tuple[int, ...]) -> Iterator[Measured]:
    """The steps of a group on a new table of each size, each in a process of its own."""
    group = GROUPS[name]
    before: dict[str, tuple[int, float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as warehouse:
            _in_a_process("--make", name, warehouse, str(size))
            for step in group.steps:
                found = json.loads(_in_a_process("--step", name, step.name, warehouse, str(size)).splitlines()[-1])
                exponent = _exponent(before.get(step.name), size, found["cpu_s"])
                before[step.name] = size, found["cpu_s"]
                yield Measured(name, step.name, group.what, size, **found, exponent=exponent)


def _exponent(before: tuple[int, float] | None, size: int, cpu_s: float) -> float | None:
    if before is None or before[1] <= 0 or cpu_s <= 0:
        return None
    return math.log(cpu_s / before[1]) / math.log(size / before[0])


def main(arguments: list[str]) -> None:
    """Prints a line for each group, step and size."""
    if arguments[:1] == ["--step"]:
        _carry_out(*arguments[1:])
        return
    if arguments[:1] == ["--make"]:
        name, warehouse, size = arguments[1:]
        GROUPS[name].make(warehouse, int(size))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="all by default")
    parser.add_argument("--sizes", type=int, nargs="+", help="other sizes than the usual ones")
    parser.add_argument("--large", action="store_true", help="the largest sizes too")
    parser.add_argument("--json", help="a file for the figures")
    given = parser.parse_args(arguments)
    found: list[Measured] = []
    print(f"{'table':11}{'step':31}{'size':>21}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}{'exponent':>10}")
    for name in given.groups or GROUPS:
        group = GROUPS[name]
        for one in measured(name, tuple(given.sizes or (*group.sizes, *(group.large if given.large else ())))):
            found.append(one)
            exponent = "" if one.exponent is None else f"{one.exponent:.2f}"
            size = f"{one.size:,} {one.what}"
            times = f"{one.cpu_s:>9.3f}{one.wall_s:>9.3f}{one.peak_mb:>9,}"
            print(f"{one.group:11}{one.step:31}{size:>21}{times}{exponent:>10}", flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
