"""What must be true of a table after any action: it is valid, and equals the model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

from paimon_engine import Table
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.restore import list_quarantines
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.reach.clean_up_plan import FENCE_USER
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import HELD_PREFIX
from tests.support.world.model import Rows
from tests.support.world.reach import unreached
from tests.support.world.world import HOUR_MS, World

Sorted = tuple[Any, ...]
"""Rows in order, as a value."""
_FRESH_ID = re.compile(r"[0-9a-f]{8}-0000-4000-8000-000000000000")


def assert_sound(table: TableHandle, *, may_lack_snapshots: bool = False, footers: bool = True) -> set[str]:
    """The table verifies, and has all that any version of it needs; paths of the files that nothing needs.

    `may_lack_snapshots` of one who went from one row of snapshots to another and was interrupted: where those between
    have expired, there is no way without a gap. Without `footers` data files need not be real.
    """
    problems = check_table(table, footers=footers)
    if may_lack_snapshots:
        problems = [problem for problem in problems if "those between are missing" not in problem.what]
    assert problems == [], problems
    return unreached(table.env.storage, table.paths.root)


def assert_nothing_left(table: TableHandle) -> None:
    """After a removal of orphans: no file is there that nothing needs."""
    left = unreached(table.env.storage, table.paths.root)
    if list_quarantines(table):
        # The plan of a clean-up stays as long as a quarantine has files that it names.
        left = {path for path in left if not path.startswith("deletion/orphans/")}
    assert left == set(), left


def clean(world: World) -> None:
    """Removes orphans, however young, and then nothing is left: it is confirmed that all versions are visible."""
    world.now_ms += HOUR_MS
    newest = world.table().latest_snapshot_id() or 0
    assert world.run(RemoveOrphanFiles(world.now_ms, confirm_latest_snapshot=newest), "clean-up").stopped == ()
    assert_nothing_left(world.handle)


def assert_kept(found: Rows, known: Rows, key: str, *, unsure: Collection[Any]) -> None:
    """Each row that was acknowledged is there once, and no other, apart from keys whose state is unknown."""
    names = known.kind.schema.names
    times = Counter(row[key] for row in found.rows)
    twice = [value for value, count in times.items() if count > 1]
    assert not twice, f"there twice: {twice[:5]}"
    acknowledged, there = (rows.without(lambda row: row[key] in unsure).counted(names) for rows in (known, found))
    assert not acknowledged - there, f"lost: {[*(acknowledged - there)][:5]}"
    assert not there - acknowledged, f"deleted, or of nobody: {[*(there - acknowledged)][:5]}"


def commits_of(table: Table, user: str = "job") -> Counter[tuple[str, str, int]]:
    """How often each of the user's commits is there."""
    found = table.snapshots().to_pylist()
    names = ((one["commit_user"], one["commit_kind"], one["commit_identifier"]) for one in found)
    return Counter(name for name in names if name[0] == user)


def rows(table: Table, **at: Any) -> Sorted:
    """All that the table has then, in order."""
    found = table.to_arrow(columns=["p", "k", "v"], **at).to_pylist()
    return tuple(sorted(tuple(row.values()) for row in found))


@dataclass(frozen=True)
class State:
    """All that a user sees of a table, without names and times that differ from run to run."""

    rows: dict[str, Sorted]
    snapshots: dict[str, tuple[str, ...]]
    commits: dict[tuple[str, str, int], int]
    tags: dict[str, dict[str, int]]
    consumers: tuple[Any, ...]
    schema: str
    marks: tuple[str, ...]

    def difference(self, then: State) -> str:
        """What is now and was not then, for messages."""
        names = [item.name for item in fields(State) if getattr(self, item.name) != getattr(then, item.name)]
        return "; ".join(f"{name}: {getattr(self, name)} instead of {getattr(then, name)}" for name in names)


def look(world: World) -> State:
    """The state, as the store is."""
    world = world.beside()
    table, branches = world.table(), ["main"]
    branches += sorted(table.branches()["branch_name"].to_pylist())
    all_rows, snapshots, tags = {}, {}, {}
    for branch in branches:
        opened = world.table(branch)
        found = opened.snapshots().to_pylist()
        # A clean-up that is repeated blocks commits once more.
        found = [item for item in found if not item["commit_user"].startswith(FENCE_USER)]
        snapshots[branch] = tuple(f"{item['snapshot_id']} {item['commit_kind']}" for item in found)
        all_rows[branch] = rows(opened)
        names = {item["tag_name"]: item["snapshot_id"] for item in opened.tags().to_pylist()}
        # One that keeps a version during a job expires by itself, where that was interrupted.
        names = {name: number for name, number in names.items() if not name.startswith(HELD_PREFIX)}
        tags[branch] = {_FRESH_ID.sub("<id>", name): number for name, number in names.items()}
        all_rows |= {f"{branch} {_FRESH_ID.sub('<id>', name)}": rows(opened, tag=name) for name in names}
    consumers = tuple(sorted(map(str, table.consumers().to_pylist())))
    marks = tuple(sorted(i.path for i in world.inner.walk(world.root) if i.path.endswith(("_SUCCESS", "UNFINISHED"))))
    schema = json.dumps([table.schema.row_type.names, dict(table.schema.options)])
    return State(all_rows, snapshots, dict(commits_of(table)), tags, consumers, schema, marks)
