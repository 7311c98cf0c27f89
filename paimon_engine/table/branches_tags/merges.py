"""What was merged into which branch: a property of the commit, and a file that outlives its snapshot.

`<root of the branch>/MERGED-<other>` says up to which snapshot the branch was merged into the other one, and which
snapshot there has it. It says nothing any more once a rollback has removed that one. No other engine reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.stored import WRONG, parse_object, required_integer, text
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import branches, latest_snapshot_id, read_snapshot, snapshots_newest_first

MERGED: Final = "merged-branch"
"""The property of a commit that merges a branch."""
_INTO: Final = "into"


def merged_commits(table: TableHandle, source: TableHandle, kept: Sequence[Snapshot]) -> set[tuple[int, str]]:
    """The commits of the branch up to which it was merged before, according to a file and the table's snapshots."""
    path = _marker(table, source)
    texts = [one.encode() for one in _properties(kept)]
    with suppress(NotFoundError):
        texts.append(table.env.storage.read(path))
    found = set()
    for value in _described(texts, path):
        with suppress(CorruptTableError, *WRONG):
            if text(value, "branch") == source.paths.branch and not _is_rolled_back(table, value.get(_INTO)):
                found.add((required_integer(value, "snapshot", 1), text(value, "deltaManifestList")))
    return found


def _is_rolled_back(table: TableHandle, into: Any) -> bool:
    """Whether the commit that merged is gone; earlier releases do not say which it was.

    An expiry removes the oldest snapshots and a rollback the newest, so its number is a later one, or another commit's.
    """
    if into is None:
        return False
    number, delta = required_integer(into, "snapshot", 1), text(into, "deltaManifestList")
    if number > (latest_snapshot_id(table) or 0):
        return True
    try:
        return read_snapshot(table, number).delta_manifest_list != delta
    except NotFoundError:
        return False


def describe(source: TableHandle, snapshot: Snapshot) -> str:
    """The value of the property, for a merge up to that snapshot of the branch."""
    return json.dumps({"branch": source.paths.branch, **_commit(snapshot)})


def _commit(snapshot: Snapshot) -> dict[str, Any]:
    return {"snapshot": snapshot.id, "deltaManifestList": snapshot.delta_manifest_list}


def store_marker(table: TableHandle, source: TableHandle, snapshot: Snapshot, made: Snapshot) -> None:
    """Writes the file, after the commit `made`, whose property says the same until its snapshot expires."""
    value = {"branch": source.paths.branch, **_commit(snapshot), _INTO: _commit(made)}
    table.env.storage.overwrite(_marker(table, source), json.dumps(value).encode())


def merged_into_both(table: TableHandle, source: TableHandle, base: Snapshot | None) -> list[str]:
    """As messages, what was merged into the branch since `base`, and is in the table, too.

    Compactions may have put its rows into other files since, in each of both, so nothing tells that they are the same.

    Example: main is merged into the branch, and the branch has compacted its files. Merged into main, these would add
    the rows of main once more.
    """
    begin = 0 if base is None else base.id
    later = list(snapshots_newest_first(source, newer_than=begin))
    if later and later[-1].id == begin + 1:
        new = _named(_properties(later))
    else:
        # Some have expired: what was ever merged may have been merged since.
        new = _merged_into(table, source.paths.branch)
    both = _with_their_own(table, new) & {table.paths.branch, *_with_their_own(table, {table.paths.branch})}
    return [
        f"{name!r} was merged into branch {source.paths.branch!r} since, so that rows of it would come twice; "
        "fast-forward to the branch, or write its rows"
        for name in sorted(both - {source.paths.branch})[:1]
    ]


def _with_their_own(table: TableHandle, names: set[str]) -> set[str]:
    """The branches, those that were merged into them, and so on."""
    found: set[str] = set()
    left = set(names)
    while left:
        found |= left
        left = {one for name in left for one in _merged_into(table, name)} - found
    return found


def _merged_into(table: TableHandle, name: str) -> set[str]:
    """The branches that were ever merged into that one."""
    others = [other for other in (MAIN_BRANCH, *branches(table)) if other != name]
    into = table.on_branch(name)
    return {other for other in others if table.env.storage.exists(_marker(into, table.on_branch(other)))}


def _marker(table: TableHandle, source: TableHandle) -> str:
    return f"{source.paths.branch_root}/MERGED-{table.paths.branch}"


def _properties(snapshots: Sequence[Snapshot]) -> list[str]:
    """What the snapshots say of merges."""
    properties = [snapshot.extras.get("properties") for snapshot in snapshots]
    found = [item.get(MERGED) for item in properties if isinstance(item, Mapping)]
    return [item for item in found if isinstance(item, str)]


def _named(texts: Sequence[str]) -> set[str]:
    found = set()
    for value in _described([one.encode() for one in texts], MERGED):
        with suppress(CorruptTableError, *WRONG):
            found.add(text(value, "branch"))
    return found


def _described(texts: Sequence[bytes], where: str) -> Iterator[Mapping[str, Any]]:
    """What can be parsed of them."""
    for one in texts:
        with suppress(CorruptTableError, *WRONG):
            yield parse_object(one, where)
