"""Snapshots of main while it is fast-forwarded, beside others who delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.errors import ConflictError
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import lower_latest_hint, mend_hints, snapshot_ids

_ROUNDS_MAX: Final = 5


def ids_there(main: TableHandle, branch: TableHandle) -> list[int]:
    """Ids of the branch's snapshots. Raises: ConflictError if others have deleted it meanwhile."""
    ids = snapshot_ids(branch)
    if not ids:
        raise ConflictError(
            f"branch {branch.paths.branch!r} of {main.paths.root} was deleted during the fast-forward; see what main "
            "holds now, and roll back if it is not what it should be"
        )
    return ids


def check_sources(main: TableHandle, branch: TableHandle, copied: Sequence[int]) -> None:
    """Checks that the branch is there; a deletion that began before main had the `copied` ones has not seen them.

    Then they go again, where main has another snapshot. Raises: ConflictError.
    """
    try:
        ids_there(main, branch)
    except ConflictError:
        if not set(snapshot_ids(main)) <= set(copied):
            main.env.storage.delete([main.paths.snapshot(number) for number in sorted(copied)])
            mend_hints(main)
        raise


def remove_from(main: TableHandle, first: int) -> None:
    """Removes main's snapshots from `first` on, newest first.

    The oldest stays where no other one is left, whoever took those: a table without any would pass for an empty one.
    """
    for _ in range(_ROUNDS_MAX):
        ids = snapshot_ids(main)
        newer = [number for number in ids if number >= first]
        newer = newer[1:] if newer == ids else newer
        if not newer:
            return
        lower_latest_hint(main, first - 1)
        for number in reversed(newer):
            main.env.storage.delete([main.paths.snapshot(number)])
    raise ConflictError(f"others keep committing to {main.paths.root} during the fast-forward; stop them")
