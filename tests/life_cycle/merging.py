"""Merging a branch, and the rows that should come of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from paimon_engine import Table
from tests.life_cycle.world import World, line_name
from tests.support.world.model import Change, Commit, Row, Rows


def merge(world: World, table: Table, name: str, *, dry_run: bool = False) -> Any:
    """Merges the branch into the table; None if others have deleted its base meanwhile."""
    change = Change(lambda _: None, lambda row: True, keeps_order=False)
    user = world.user(line_name(table), change)
    plan = table.merge_branch(name, dry_run=True)
    base: Commit | None = None
    if plan.base_snapshot is not None:
        versions = [*world.versions(name, "tag"), *world.versions(name, "snapshot")]
        found = [version.commit for version in versions if version.commit[0] == plan.base_snapshot]
        if not found:
            return None
        base = found[-1]

    def merged(ours: Rows) -> Rows | None:
        old = Rows(world.kind) if base is None else world.states[base]
        new = world.states[_commit(world.learning["properties"]["merged-branch"])]
        return None if old is None or new is None else three_way(old, ours, new)

    change.apply = merged
    return plan if dry_run else table.merge_branch(name, commit_user=user)


def _commit(text: str) -> Commit:
    value = json.loads(text)
    return value["snapshot"], value["deltaManifestList"]


def three_way(old: Rows, ours: Rows, theirs: Rows) -> Rows:
    """Our rows, with the changes of the old ones in theirs."""
    names = sorted({name for rows in (old, ours, theirs) for row in rows.rows for name in row})
    before, mine, yours = (rows.counted(names) for rows in (old, ours, theirs))
    gone, come = before - yours, yours - before
    assert not gone - mine, f"rows are to be deleted that are not there: {gone - mine}"
    left: Counter[tuple[Any, ...]] = mine - gone + come
    rows: list[Row] = [dict(zip(names, values, strict=True)) for values in left.elements()]
    return Rows(ours.kind, rows)
