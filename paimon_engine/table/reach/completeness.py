"""Is what is seen of a table complete enough to delete anything?

No snapshot in sight does not mean that nothing is needed: a table may be half copied or half restored, and a store may
answer a listing with "not there" for a while. What is seen of each branch is therefore held against everything else
that tells of its versions:

1. The hints. `LATEST` is written after its snapshot and lowered before snapshots go, so it never names one above the
   newest. `EARLIEST` and the changelogs' hints are moved after the files have gone; one that names a missing file
   below the earliest is left by an expiry that was cut short, whose record (`table.reach.unfinished`) says so, or tells
   that files are out of sight.
2. The store, asked for files by their names: the snapshots next to both ends of the row and at both ends of each gap
   in it, and those that hints name; changelogs likewise.
   What is there by name and not in the listing shows that the listing is wrong.
3. Tags and changelogs of a branch that has no snapshots at all: no action leaves a branch so.

A tag or branch all of whose files are needed by versions in sight leaves nothing to hold it against. A record of the
tags that were there would not do: other engines make and delete tags without telling us, so that what it lacks and what
it has too much of would be ordinary, and it may be out of sight itself.

Everything here is a pure function on what was seen; `table.reach.sight` does the looking. Orphan removal, for which an
unseen version looks like garbage, asks for more (`table.removal.orphan_doubts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.meta.paths import MAIN_BRANCH

WAIT: Final = "wait until all files of the table are there, or bring them back"
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class LineSeen:
    """What is seen of the versions of one branch.

    `unlisted` are ids of snapshots that are there by name and not in the listing, `unlisted_changelogs` of changelogs.
    Hints are None where there are none. `removed_snapshots` and `removed_changelogs` are those that records of
    deletions cut short name.
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
class Unseen:
    """Why versions of a branch may be out of sight.

    With `is_earlier` they are older than all snapshots in sight, else they may be any. `is_certain` says that
    something is known to be there that the listing does not show: nobody can confirm that it is not.
    """

    branch: str
    reason: str
    is_earlier: bool = False
    is_certain: bool = False


def unseen_versions(line: LineSeen) -> Iterator[Unseen]:
    """Why versions of the branch may be out of sight; nothing where all that is known of it fits together."""
    of = "" if line.branch == MAIN_BRANCH else f" of branch {line.branch!r}"
    if line.unlisted:
        what = f"snapshot {shown(line.unlisted)}{of} is there, and the listing of its directory lacks it"
        yield Unseen(line.branch, f"{what}: the store's listing is not complete", is_certain=True)
    newest = line.snapshots[-1] if line.snapshots else None
    if line.latest_hint is not None and line.latest_hint > (newest or 0) and line.latest_hint not in line.unlisted:
        seen = "no snapshot is in sight" if newest is None else f"the newest in sight is {newest}"
        way = "" if newest is None else f", or rollback(snapshot={newest}) makes that the latest"
        yield Unseen(line.branch, f"hint LATEST{of} names snapshot {line.latest_hint}, and {seen}; {WAIT}{way}")
    if newest is None and not line.unlisted:
        yield from _without_snapshots(line, of)
    elif line.snapshots:
        yield from _below(line, of)
    yield from _changelogs(line, of)


def _without_snapshots(line: LineSeen, of: str) -> Iterator[Unseen]:
    if line.earliest_hint is not None and line.latest_hint is None:
        yield Unseen(
            line.branch, f"hint EARLIEST{of} names snapshot {line.earliest_hint}, and none is in sight; {WAIT}"
        )
    if (line.tags or line.changelogs) and not line.removed_snapshots:
        what = f"tag {shown(line.tags)}" if line.tags else f"changelog {shown(line.changelogs)}"
        finish = "" if line.branch == MAIN_BRANCH else ", or delete_branch if its deletion was cut short"
        yield Unseen(line.branch, f"{what}{of} is there, and no snapshot is in sight; {WAIT}{finish}")
    if not line.has_schema:
        yield Unseen(
            line.branch,
            f"the directory of branch {line.branch!r} has no schema, so that its versions may be out of sight; {WAIT}, "
            "or delete_branch removes what is left of it",
        )


def _below(line: LineSeen, of: str) -> Iterator[Unseen]:
    hint, first = line.earliest_hint, line.snapshots[0]
    if hint is None or not 0 < hint < first:
        return
    if not set(range(hint, first)) <= line.removed_snapshots:
        yield Unseen(
            line.branch,
            f"hint EARLIEST{of} names snapshot {hint}, and the first one in sight is {first}; {WAIT}, or "
            "repair_earliest_snapshot if those before have expired",
            is_earlier=True,
        )


def _changelogs(line: LineSeen, of: str) -> Iterator[Unseen]:
    if line.unlisted_changelogs:
        what = f"changelog {shown(line.unlisted_changelogs)}{of} is there, and the listing of its directory lacks it"
        yield Unseen(line.branch, f"{what}: the store's listing is not complete", is_certain=True)
    latest, earliest = line.latest_changelog_hint, line.earliest_changelog_hint
    newest = line.changelogs[-1] if line.changelogs else 0
    # Java moves EARLIEST beyond the last changelog that it expires, and leaves LATEST as it was.
    all_expired = earliest is not None and latest is not None and earliest > latest
    if latest is not None and latest > newest and not all_expired and latest not in line.removed_changelogs:
        seen = f"the newest in sight is {newest}" if newest else "none is in sight"
        what = f"hint LATEST of the changelogs{of} names {latest}, and {seen}"
        yield Unseen(line.branch, f"{what}; {WAIT}, or expire_changelogs if they have expired", is_earlier=True)
    first = line.changelogs[0] if line.changelogs else None
    if (
        first is not None
        and earliest is not None
        and 0 < earliest < first
        and not set(range(earliest, first)) <= line.removed_changelogs
    ):
        what = f"hint EARLIEST of the changelogs{of} names {earliest}, and the first one in sight is {first}"
        yield Unseen(line.branch, f"{what}; {WAIT}", is_earlier=True)


def shown(items: Sequence[object] | Collection[object]) -> str:
    """Some of the items, for messages, and how many more there are."""
    some = list(items)
    more = f" and {len(some) - _SHOWN_MAX} more" if len(some) > _SHOWN_MAX else ""
    return ", ".join(map(str, some[:_SHOWN_MAX])) + more
