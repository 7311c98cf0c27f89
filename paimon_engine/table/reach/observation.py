"""Observes a branch: which snapshots, tags and changelogs exist, by listings, hints, and requests for single files.

`table.reach.completeness` decides from this whether versions may be missing from the listings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.table.reach.completeness import BranchObservation
from paimon_engine.table.reach.deletion_records import Record, records, versions_among
from paimon_engine.table.state.changelogs import changelog_ids
from paimon_engine.table.state.handle import TableHandle, latest_schema_id
from paimon_engine.table.state.hints import hint_of
from paimon_engine.table.state.snapshots import snapshot_ids, tag_names


def observe_branch(on_branch: TableHandle) -> BranchObservation:
    """The observation of one branch: the table's own, or one that `with_branch_paths` gives.

    Hints are read before the listings, and a directory that seems to lack a file is listed once more: other processes
    may commit at the same time.
    """
    paths = on_branch.paths
    # Where a server keeps the snapshots, no engine maintains the hints.
    latest = None if on_branch.snapshot_service is not None else hint_of(on_branch, paths.latest_hint)
    earliest = None if on_branch.snapshot_service is not None else hint_of(on_branch, paths.earliest_hint)
    latest_changelog = hint_of(on_branch, paths.latest_changelog_hint)
    earliest_changelog = hint_of(on_branch, paths.earliest_changelog_hint)
    tags = tag_names(on_branch)
    changelogs, unlisted_changelogs = _changelogs(on_branch, latest_changelog, earliest_changelog)
    ids, unlisted = _snapshots(on_branch, latest, earliest)
    if latest is not None and latest > max((*ids, *unlisted), default=0):
        # A rollback may be running: it lowers the hint before it removes snapshots.
        latest = hint_of(on_branch, paths.latest_hint)
    seen = BranchObservation(
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
        has_schema=bool(ids) or paths.branch == MAIN_BRANCH or latest_schema_id(on_branch.env, paths) is not None,
    )
    return _with_records(on_branch, seen)


def _snapshots(on_branch: TableHandle, latest: int | None, earliest: int | None) -> tuple[list[int], list[int]]:
    """Ids in the listing, and ids of files that exist but are not in it."""
    ids = snapshot_ids(on_branch)
    if not (existing := _unlisted(on_branch, ids, latest, earliest)):
        return ids, []
    # They may have been committed since the directory was listed.
    ids = snapshot_ids(on_branch)
    return ids, [number for number in existing if number not in ids]


def _unlisted(on_branch: TableHandle, ids: list[int], latest: int | None, earliest: int | None) -> list[int]:
    """Ids of existing snapshots that `ids` lacks, among those of the hints and next to its ends and gaps."""
    asked = {number for number in (latest, earliest) if number}
    if ids:
        asked |= {ids[0] - 1, *_ends_of_gaps(ids), *([ids[-1] + 1] if on_branch.snapshot_service is None else [])}
    else:
        asked |= {1}
    wanted = sorted(number for number in asked - set(ids) if number > 0)
    return [number for number in wanted if on_branch.env.storage.exists(on_branch.paths.snapshot(number))]


def _ends_of_gaps(ids: Sequence[int]) -> Iterator[int]:
    for one, following in pairwise(ids):
        if following != one + 1:
            yield from (one + 1, following - 1)


def _changelogs(on_branch: TableHandle, latest: int | None, earliest: int | None) -> tuple[list[int], list[int]]:
    """As `_snapshots`, for changelogs."""
    ids = changelog_ids(on_branch)
    asked = {number for number in (latest, earliest) if number}
    if ids:
        asked |= {ids[0] - 1, ids[-1] + 1, *_ends_of_gaps(ids)}
    wanted = sorted(number for number in asked - set(ids) if number > 0)
    existing = [number for number in wanted if on_branch.env.storage.exists(on_branch.paths.changelog(number))]
    if not existing:
        return ids, []
    # An expiry may have written one since the directory was listed.
    ids = changelog_ids(on_branch)
    return ids, [number for number in existing if number not in ids]


def _with_records(on_branch: TableHandle, seen: BranchObservation) -> BranchObservation:
    """Adds the ids that records of interrupted deletions name, if files seem to be missing."""
    first = (min(seen.snapshots, default=0), min(seen.changelogs, default=0))
    hints = (seen.earliest_hint or 0, seen.earliest_changelog_hint or seen.latest_changelog_hint or 0)
    lacks_snapshots = not seen.snapshots and (seen.tags or seen.changelogs)
    if not lacks_snapshots and not any(hint and hint != number for hint, number in zip(hints, first, strict=True)):
        return seen
    removed = versions_among(path for record in records(on_branch)[0] for path in record.roots)
    return replace(
        seen,
        removed_snapshots=frozenset(removed.get(on_branch.paths.snapshot_dir, ())),
        removed_changelogs=frozenset(removed.get(on_branch.paths.changelog_dir, ())),
    )


def files_of_interrupted_deletions(table: TableHandle) -> set[str]:
    """Paths of files that an interrupted deletion has left: it removed their snapshots, but not yet the files."""
    return {
        path for record in records(table)[0] if _is_hidden(table, record) for path in (*record.data, *record.metadata)
    }


def _is_hidden(table: TableHandle, record: Record) -> bool:
    return bool(record.roots) and not any(table.env.storage.exists(path) for path in record.roots)
