"""What is seen of a table's versions, gathered from listings, hints, and files that are asked for by their names.

`table.reach.completeness` says what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.table.reach.completeness import LineSeen
from paimon_engine.table.reach.unfinished import Record, records
from paimon_engine.table.state.changelogs import changelog_ids
from paimon_engine.table.state.handle import TableHandle, latest_schema_id
from paimon_engine.table.state.snapshots import hint_of, snapshot_ids, tag_names

_NUMBER: Final = re.compile(r"-(\d+)$")


def see_line(line: TableHandle) -> LineSeen:
    """What is seen of one branch, the table's own or one that `on_line` gives.

    Hints are read before the listings, and what seems to be missing is listed once more: others may commit meanwhile.
    """
    paths = line.paths
    # Where a server keeps the snapshots nobody cares for hints.
    latest = None if line.snapshot_service is not None else hint_of(line, paths.latest_hint)
    earliest = None if line.snapshot_service is not None else hint_of(line, paths.earliest_hint)
    latest_changelog = hint_of(line, paths.latest_changelog_hint)
    earliest_changelog = hint_of(line, paths.earliest_changelog_hint)
    tags = tag_names(line)
    changelogs, unlisted_changelogs = _changelogs(line, latest_changelog, earliest_changelog)
    ids, unlisted = _snapshots(line, latest, earliest)
    if latest is not None and latest > max((*ids, *unlisted), default=0):
        # Whoever rolls back lowers the hint before snapshots go.
        latest = hint_of(line, paths.latest_hint)
    seen = LineSeen(
        paths.branch,
        tuple(ids),
        latest,
        earliest,
        tuple(unlisted),
        tuple(changelogs),
        latest_changelog,
        earliest_changelog,
        tags=tuple(tags),
        unlisted_changelogs=tuple(unlisted_changelogs),
        has_schema=bool(ids) or paths.branch == MAIN_BRANCH or latest_schema_id(line.env, paths) is not None,
    )
    return _with_records(line, seen)


def _snapshots(line: TableHandle, latest: int | None, earliest: int | None) -> tuple[list[int], list[int]]:
    """Ids of the listing, and those that are there by name and not in it."""
    ids = snapshot_ids(line)
    if not (there := _unlisted(line, ids, latest, earliest)):
        return ids, []
    # Somebody may have committed since the directory was listed.
    ids = snapshot_ids(line)
    return ids, [number for number in there if number not in ids]


def _unlisted(line: TableHandle, ids: list[int], latest: int | None, earliest: int | None) -> list[int]:
    asked = {number for number in (latest, earliest) if number}
    if ids:
        asked |= {ids[0] - 1, *_ends_of_gaps(ids), *([ids[-1] + 1] if line.snapshot_service is None else [])}
    else:
        asked |= {1}
    wanted = sorted(number for number in asked - set(ids) if number > 0)
    return [number for number in wanted if line.env.storage.exists(line.paths.snapshot(number))]


def _ends_of_gaps(ids: Sequence[int]) -> Iterator[int]:
    for one, following in pairwise(ids):
        if following != one + 1:
            yield from (one + 1, following - 1)


def _changelogs(line: TableHandle, latest: int | None, earliest: int | None) -> tuple[list[int], list[int]]:
    """Ids of the listing, and those that are there by name and not in it."""
    ids = changelog_ids(line)
    asked = {number for number in (latest, earliest) if number}
    if ids:
        asked |= {ids[0] - 1, ids[-1] + 1, *_ends_of_gaps(ids)}
    wanted = sorted(number for number in asked - set(ids) if number > 0)
    there = [number for number in wanted if line.env.storage.exists(line.paths.changelog(number))]
    if not there:
        return ids, []
    # An expiry may have kept one since the directory was listed.
    ids = changelog_ids(line)
    return ids, [number for number in there if number not in ids]


def _with_records(line: TableHandle, seen: LineSeen) -> LineSeen:
    """With what records say of removed files, where files seem to be missing."""
    first = (min(seen.snapshots, default=0), min(seen.changelogs, default=0))
    hints = (seen.earliest_hint or 0, seen.earliest_changelog_hint or seen.latest_changelog_hint or 0)
    without = not seen.snapshots and (seen.tags or seen.changelogs)
    if not without and not any(hint and hint != number for hint, number in zip(hints, first, strict=True)):
        return seen
    found = [path for record in records(line)[0] for path in record.roots]
    return replace(
        seen,
        removed_snapshots=_numbers(found, f"{line.paths.snapshot_dir}/"),
        removed_changelogs=_numbers(found, f"{line.paths.changelog_dir}/"),
    )


def _numbers(paths: list[str], directory: str) -> frozenset[int]:
    inside = (path for path in paths if path.startswith(directory))
    return frozenset(int(match[1]) for path in inside if (match := _NUMBER.search(path)) is not None)


def explained(table: TableHandle) -> set[str]:
    """Paths of files whose versions a deletion of ours has removed, and did not come to remove them."""
    return {
        path for record in records(table)[0] if _is_hidden(table, record) for path in (*record.data, *record.metadata)
    }


def _is_hidden(table: TableHandle, record: Record) -> bool:
    return bool(record.roots) and not any(table.env.storage.exists(path) for path in record.roots)
