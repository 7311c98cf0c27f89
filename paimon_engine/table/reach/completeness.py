"""Decides whether the listed versions of a table are complete, so that files may be deleted.

A *version* is a snapshot, tag or changelog. Listings may lack versions that exist: a table may be copied or restored
only in part, and a listing may be empty or out of date for a while. Files of a version that is not visible would then
look unneeded. So the listing of each branch is compared with all other signs of its versions:

1. The hints. `LATEST` is written after its snapshot, and lowered before a rollback removes snapshots, so it is never
   higher than the newest snapshot. `EARLIEST` and the hints of changelogs are moved after an expiry removed the files.
   If one names a missing file below the first one listed, either an expiry was interrupted, and its record
   (`table.reach.deletion_records`) names that file, or files are missing from the listing.
2. Requests for single files: the ids next to both ends of the listing, at both ends of each gap in it, and those named
   by hints; likewise for changelogs. If such a file exists and is not listed, the listing is wrong.
3. Tags or changelogs of a branch without any snapshot: no action leaves a branch like that.
4. Branches with snapshots beside a main without any: a copy in the order of paths has branches and data files before
   main's snapshots. Where main never had one, its first commit ends the doubt.

Example: the listing shows snapshots 5 and 6, `LATEST` is 6, `EARLIEST` is 3. If a deletion record names 3 and 4, an
expiry was interrupted, and nothing is missing. If none does, 3 and 4 may exist (a copy of the table has not reached
them yet), and their files must not be deleted.

A missing tag leaves no sign if all of its files are also needed by visible versions. A list of the tags that should
exist would not help: other engines create and delete tags without updating it.

Everything here is a pure function of an observation (`table.reach.observation`). Orphan removal, which would delete
the files of an invisible version, checks more (`table.removal.orphan_doubts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.meta.paths import MAIN_BRANCH

WAIT: Final = "wait until all files of the table are copied, or restore them"
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class BranchObservation:
    """What listings, hints and single requests show of one branch.

    `snapshots` and `changelogs` are the listed ids, ascending. `unlisted` and `unlisted_changelogs` are ids of files
    that exist but are not listed. A hint is None if its file does not exist. `removed_snapshots` and
    `removed_changelogs` are the ids in records of interrupted deletions.
    """

    branch: str
    snapshots: tuple[int, ...] = ()
    latest_hint: int | None = None
    earliest_hint: int | None = None
    unlisted: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    latest_changelog_hint: int | None = None
    earliest_changelog_hint: int | None = None
    tags: tuple[str, ...] = ()
    has_schema: bool = True
    removed_snapshots: frozenset[int] = frozenset()
    removed_changelogs: frozenset[int] = frozenset()
    unlisted_changelogs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingVersions:
    """Why versions of a branch may exist that are not listed.

    With `is_earlier` they are older than all listed snapshots, otherwise of any age. With `is_certain` a file is known
    to exist that the listing lacks, so a user cannot confirm that nothing is missing. `lasts`: as in `doubts.Doubt`.
    """

    branch: str
    reason: str
    is_earlier: bool = False
    is_certain: bool = False
    lasts: bool = False


def find_missing_versions(observed: BranchObservation) -> Iterator[MissingVersions]:
    """The reasons to believe that listings of the branch are incomplete; none if all signs agree."""
    of = "" if observed.branch == MAIN_BRANCH else f" of branch {observed.branch!r}"
    if observed.unlisted:
        what = f"snapshot {shown(observed.unlisted)}{of} exists, but the listing of its directory lacks it"
        yield MissingVersions(observed.branch, f"{what}: the listing is incomplete", is_certain=True)
    newest = observed.snapshots[-1] if observed.snapshots else None
    if (
        observed.latest_hint is not None
        and observed.latest_hint > (newest or 0)
        and observed.latest_hint not in observed.unlisted
    ):
        seen = "no snapshot is listed" if newest is None else f"the newest one listed is {newest}"
        way = "" if newest is None else f", or make {newest} the latest by rollback(snapshot={newest})"
        reason = f"hint LATEST{of} names snapshot {observed.latest_hint}, but {seen}; {WAIT}{way}"
        yield MissingVersions(observed.branch, reason)
    if newest is None and not observed.unlisted:
        yield from _without_snapshots(observed, of)
    elif observed.snapshots:
        yield from _below(observed, of)
    yield from _changelogs(observed, of)


def find_missing_main(observed: Sequence[BranchObservation]) -> Iterator[MissingVersions]:
    """The reason to believe that all versions of main are missing from the listings; `observed` are all branches."""
    others = [one.branch for one in observed if one.branch != MAIN_BRANCH and one.snapshots]
    main = next((one for one in observed if one.branch == MAIN_BRANCH), None)
    if others and main is not None and not main.snapshots and not main.unlisted:
        yield MissingVersions(
            MAIN_BRANCH,
            f"main has no snapshot, but branch {shown(others)} has, and may share files with those of main; {WAIT}, or "
            "commit to main if it never had one",
            lasts=True,
        )


def _without_snapshots(observed: BranchObservation, of: str) -> Iterator[MissingVersions]:
    """Signs of versions where no snapshot is listed: a hint, tags or changelogs, or a branch without a schema."""
    if observed.earliest_hint is not None and observed.latest_hint is None:
        yield MissingVersions(
            observed.branch, f"hint EARLIEST{of} names snapshot {observed.earliest_hint}, but none is listed; {WAIT}"
        )
    if (observed.tags or observed.changelogs) and not observed.removed_snapshots:
        what = f"tag {shown(observed.tags)}" if observed.tags else f"changelog {shown(observed.changelogs)}"
        finish = "" if observed.branch == MAIN_BRANCH else ", or run delete_branch if its deletion was interrupted"
        yield MissingVersions(observed.branch, f"{what}{of} exists, but no snapshot is listed; {WAIT}{finish}")
    if not observed.has_schema:
        yield MissingVersions(
            observed.branch,
            f"the directory of branch {observed.branch!r} has no schema, so versions of it may be missing, too; "
            f"{WAIT}, or remove what is left of it with delete_branch",
        )


def _below(observed: BranchObservation, of: str) -> Iterator[MissingVersions]:
    """Snapshots between the hint EARLIEST and the first one listed, unless an interrupted deletion removed them."""
    hint, first = observed.earliest_hint, observed.snapshots[0]
    if hint is None or not 0 < hint < first:
        return
    if not set(range(hint, first)) <= observed.removed_snapshots:
        yield MissingVersions(
            observed.branch,
            f"hint EARLIEST{of} names snapshot {hint}, but the first one listed is {first}; {WAIT}, or "
            "run repair_earliest_snapshot if those before it have expired",
            is_earlier=True,
        )


def _changelogs(observed: BranchObservation, of: str) -> Iterator[MissingVersions]:
    """Changelogs that hints name, or that exist by their names, and that the listing lacks."""
    if observed.unlisted_changelogs:
        what = f"changelog {shown(observed.unlisted_changelogs)}{of} exists, but the listing of its directory lacks it"
        yield MissingVersions(observed.branch, f"{what}: the listing is incomplete", is_certain=True)
    latest, earliest = observed.latest_changelog_hint, observed.earliest_changelog_hint
    newest = observed.changelogs[-1] if observed.changelogs else 0
    # When all changelogs expire, Java sets EARLIEST to the id after the last one, and does not change LATEST.
    all_expired = earliest is not None and latest is not None and earliest > latest
    if latest is not None and latest > newest and not all_expired and latest not in observed.removed_changelogs:
        seen = f"the newest one listed is {newest}" if newest else "none is listed"
        what = f"hint LATEST of the changelogs{of} names {latest}, but {seen}"
        way = "or run expire_changelogs if they have expired"
        yield MissingVersions(observed.branch, f"{what}; {WAIT}, {way}", is_earlier=True)
    first = observed.changelogs[0] if observed.changelogs else None
    if (
        first is not None
        and earliest is not None
        and 0 < earliest < first
        and not set(range(earliest, first)) <= observed.removed_changelogs
    ):
        what = f"hint EARLIEST of the changelogs{of} names {earliest}, but the first one listed is {first}"
        yield MissingVersions(observed.branch, f"{what}; {WAIT}", is_earlier=True)


def shown(items: Sequence[object] | Collection[object]) -> str:
    """The first items, for messages, and the number of further ones."""
    some = list(items)
    more = f" and {len(some) - _SHOWN_MAX} more" if len(some) > _SHOWN_MAX else ""
    return ", ".join(map(str, some[:_SHOWN_MAX])) + more
