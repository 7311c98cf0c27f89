"""Snapshots of main while it is fast-forwarded, and others delete concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.errors import ConflictError, NotFoundError
from paimon_engine.meta.tag import Tag
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import lower_latest_hint, settle_hints
from paimon_engine.table.state.presence import is_tagged, is_there
from paimon_engine.table.state.snapshots import snapshot_ids

_ROUNDS_MAX: Final = 5
"""How often snapshots that others commit meanwhile are removed too."""


def existing_snapshot_ids(main: TableHandle, branch: TableHandle) -> list[int]:
    """Ids of the branch's snapshots. Raises: ConflictError if others have deleted it meanwhile."""
    ids = snapshot_ids(branch)
    if not ids:
        raise ConflictError(
            f"branch {branch.paths.branch!r} of {main.paths.root} was deleted during the fast-forward; see what main "
            "holds now, and roll back if its rows are not the expected ones"
        )
    return ids


def check_sources(main: TableHandle, branch: TableHandle, copied: Sequence[int]) -> None:
    """Checks that the branch still has the snapshots that main has got copies of.

    A deletion that began before main had the `copied` ones has not seen them, and took their files: then they go again,
    where main has another snapshot. Raises: ConflictError if the branch was deleted, or if main has a gap by now since
    the oldest copies went.
    """
    try:
        first = existing_snapshot_ids(main, branch)[0]
    except ConflictError:
        if not set(snapshot_ids(main)) <= set(copied):
            _take_back(main, copied)
        raise
    expired = [number for number in copied if number < first]
    if not expired:
        return
    _take_back(main, expired)
    below = [number for number in snapshot_ids(main) if number < first]
    if below:
        raise ConflictError(
            f"snapshots up to {max(expired)} of branch {branch.paths.branch!r} of {main.paths.root} expired during the "
            f"fast-forward, so nothing leads from main's snapshot {below[-1]} to {first}; "
            f"repair_earliest_snapshot(snapshot={first}) removes the older ones, and then run it again"
        )


def _take_back(main: TableHandle, copied: Sequence[int]) -> None:
    """Removes copies from main. The hints are repaired, for readers to find what is left."""
    main.env.storage.delete([main.paths.snapshot(number) for number in sorted(copied)])
    settle_hints(main, main.paths.snapshot_dir)


def remove_from(main: TableHandle, first: int) -> None:
    """Removes main's snapshots from `first` on, newest first.

    The oldest is kept if it is the only one left, no matter who removed the others: a table without any would look like
    an empty one. Raises: ConflictError if others remove the one that is to stay.
    """
    for _ in range(_ROUNDS_MAX):
        ids = snapshot_ids(main)
        newer = [number for number in ids if number >= first]
        newer = newer[1:] if newer == ids else newer
        if not newer:
            return
        lower_latest_hint(main, first - 1)
        stays = max(number for number in ids if number not in newer)
        for number in reversed(newer):
            _remove(main, number, stays)
    raise ConflictError(f"others keep committing to {main.paths.root} during the fast-forward; stop them")


def _remove(main: TableHandle, number: int, stays: int) -> None:
    """Removes a snapshot, or leaves it if the one that is to stay has expired meanwhile, and no other one is there."""
    storage, path = main.env.storage, main.paths.snapshot(number)
    try:
        data = storage.read(path)
    except NotFoundError:
        return
    storage.delete([path])
    if storage.exists(main.paths.snapshot(stays)):
        return
    if not snapshot_ids(main):
        storage.create(path, data)
    settle_hints(main, main.paths.snapshot_dir)
    raise ConflictError(
        f"snapshot {stays} of {main.paths.root} expired during the fast-forward; see what main holds now, and run it "
        "again"
    )


def tags_without_source(main: TableHandle, branch: TableHandle, copied: Sequence[Tag]) -> dict[str, int]:
    """Those of the copied tags that others deleted from the branch before main had them, and with them the files."""
    gone = (tag for tag in copied if not is_tagged(branch, tag.name, tag.snapshot))
    return {tag.name: tag.snapshot.id for tag in gone if not is_there(main, tag.snapshot)}
