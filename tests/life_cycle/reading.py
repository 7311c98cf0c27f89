"""What readers ask of the versions that are left: some rows and columns of each, and how two of them differ."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from paimon_engine import Table
from tests.life_cycle.world import World
from tests.support.world import MAIN
from tests.support.world.model import Row
from tests.support.world.reach import Version

FILTERS_OF_EACH = 2
PAIRS_OF_EACH = 8
"""Of so many pairs of snapshots of a branch is the difference read."""
Filter = tuple[str, Callable[[Row], bool]]


def assert_all_ways_agree(world: World) -> None:
    """Filters choose those rows of a version for which they hold; a state and its difference give the other state."""
    draw = random.Random(f"{world.kind.name} {world.steps}")
    versions = [version for version in world.reach.versions() if version.kind != "changelog"]
    for version in versions:
        for one in draw.sample(_filters(draw), FILTERS_OF_EACH):
            _assert_filtered(world, version, one, draw)
    if world.kind.splits_rows:
        return
    for branch in world.branches():
        numbers = [int(version.name) for version in world.versions(branch, "snapshot")]
        pairs = list(combinations(numbers, 2))
        for before, after in draw.sample(pairs, min(PAIRS_OF_EACH, len(pairs))):
            _assert_difference(world, branch, before, after, draw)


def _filters(draw: random.Random) -> Sequence[Filter]:
    k, v = draw.randint(0, 7), draw.randint(0, 99)
    return [
        (f"k = {k}", lambda row: row["k"] == k),
        (f"k > {k} AND w <> 'b'", lambda row: row["k"] > k and row["w"] not in (None, "b")),
        (f"v > {v}", lambda row: row["v"] is not None and row["v"] > v),
        ("v IS NULL", lambda row: row["v"] is None),
        ("w = 'a'", lambda row: row["w"] == "a"),
        (f"dt = '2024-01-02' OR v <= {v}", lambda row: row["dt"] == "2024-01-02" or _at_most(row["v"], v)),
        (f"k IN ({k}, 5) AND v IS NOT NULL", lambda row: row["k"] in (k, 5) and row["v"] is not None),
        ("dt >= '2024-01-02'", lambda row: row["dt"] >= "2024-01-02"),
    ]


def _at_most(value: int | None, limit: int) -> bool:
    return value is not None and value <= limit


def _assert_filtered(world: World, version: Version, one: Filter, draw: random.Random) -> None:
    text, holds = one
    whole = world.seen[version.commit]
    names = draw.sample(whole.column_names, draw.randint(1, whole.num_columns))
    at: dict[str, Any] = {"tag": version.name} if version.kind == "tag" else {"snapshot": int(version.name)}
    found = world.table(version.branch or MAIN).to_arrow(names, text, **at)
    wanted = [row for row in whole.to_pylist() if holds(row)]
    assert _counted(found.to_pylist(), names) == _counted(wanted, names), f"{version.path} where {text}: {names}"


def _assert_difference(world: World, branch: str, before: int, after: int, draw: random.Random) -> None:
    log = Table(world.on(branch), world.executor, "audit_log")
    options = {"incremental-between-scan-mode": "diff"}
    what = f"what differs between {before} and {after} of {branch}"

    def difference(where: str | None = None) -> pa.Table:
        return log.to_arrow(where=where, incremental=(before, after), options=options)

    changes = difference()
    text, holds = draw.choice(_filters(draw))
    wanted = [row for row in changes.to_pylist() if holds(row)]
    names = changes.column_names
    assert _counted(difference(text).to_pylist(), names) == _counted(wanted, names), f"{what}, where {text}"
    if not world.kind.primary_keys:
        return
    states = [world.table(branch).to_arrow(snapshot=number) for number in (before, after)]
    rows = {_key(world, row): row for row in states[0].to_pylist()}
    for row in sorted(changes.to_pylist(), key=lambda row: bool(row["rowkind"] != "-D")):
        if row["rowkind"] == "-D":
            assert rows.pop(_key(world, row), None) is not None, f"{what}: {row} was not there"
        else:
            rows[_key(world, row)] = row
    names = states[1].column_names
    assert _counted(rows.values(), names) == _counted(states[1].to_pylist(), names), what


def _key(world: World, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in world.kind.primary_keys)


def _counted(rows: Any, names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.get(name) for name in names) for row in rows)
