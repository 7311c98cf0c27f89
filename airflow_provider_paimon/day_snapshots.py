"""Which snapshot a tag for a day points to; never just the latest.

1. What this run has written: the newest snapshot that its tasks upstream of the tag committed to the table. They are
   known by the names under which tasks commit, and by what they returned.
2. Without that, the table's state when the day ended in the time zone.
3. Of snapshots with the same rows, because only compactions and the like are between them, the one that the tag is on
   already, else the one that this run compacted last. A tag on what this run compacted stays after both expired.
4. Else the task fails and says why: the day has not ended, or the table's state then has expired.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, Protocol

from paimon_engine.errors import InvalidArgumentError, NotFoundError

_WRITES: Final = frozenset(
    {
        "write",
        "delete_rows",
        "drop_partition",
        "expire_partitions",
        "fast_forward",
        "merge_branch",
        "rollback_to_as_latest",
    }
)
_TIDIES: Final = frozenset({"compact", "cluster", "rescale", "rewrite_file_index", "analyze", "compact_manifests"})
"""Actions whose snapshots have the same rows as the ones before."""

logger = logging.getLogger(__name__)


class Snapshots(Protocol):
    """What is read from a table."""

    def snapshot_as_of(self, moment: datetime) -> int:
        """Id of the newest snapshot committed then or before."""

    def have_same_rows(self, one: int, other: int) -> bool:
        """Whether only compactions and the like are between two snapshots."""

    def snapshots(self) -> Any:
        """An Arrow table of those that have not expired, oldest first, with the column `snapshot_id`."""


@dataclass(frozen=True, slots=True)
class OwnSnapshots:
    """Snapshots of a table that tasks of this run committed: those that changed its rows, and those that did not."""

    written: Sequence[int] = ()
    tidied: Sequence[int] = ()


def own_snapshots(
    results: Sequence[Any], names: Collection[str], commits: Sequence[tuple[str | None, str, int]] = ()
) -> OwnSnapshots:
    """The snapshots of the table of these names that tasks upstream have committed.

    `results` are what the tasks returned, of which everything else is ignored; `commits` has the action of a task, if
    it is known, and kind and id of a snapshot that was committed under a name of that task.
    """
    found = [one for one in results if isinstance(one, Mapping) and one.get("table") in names]
    written, tidied = set[int](), set[int]()
    for one in found:
        action, number, status = (one.get(name) for name in ("action", "snapshot_id", "status"))
        if not isinstance(number, int) or status == "dry_run":
            continue
        if action in _TIDIES:
            tidied.add(number)
        elif action in _WRITES:
            written.add(number)
    for action, kind, number in commits:
        is_tidied = action in _TIDIES if action is not None else kind not in ("APPEND", "OVERWRITE")
        (tidied if is_tidied else written).add(number)
    return OwnSnapshots(sorted(written - tidied), sorted(tidied))


def snapshot_of_day(table: Snapshots, day: date, end: datetime, own: OwnSnapshots, existing: int | None = None) -> int:
    """The snapshot to tag for a day that ends at `end`; `existing` is the one that the tag is on already.

    Raises: NotFoundError if the table's state then is not known any more, InvalidArgumentError if the day has not
    ended.
    """
    if own.written:
        base = max(own.written)
    elif existing is not None and existing in own.tidied:
        return existing
    elif time.time() < end.timestamp():
        raise InvalidArgumentError(
            f"{day} ends at {end:%Y-%m-%dT%H:%MZ} and no task upstream in this run has written, so it is not known yet "
            'what the table will contain then. Schedule the DAG by daily("02:00", "UTC"), whose runs belong to the day '
            "that has ended, or give snapshot="
        )
    else:
        try:
            base = table.snapshot_as_of(end - timedelta(milliseconds=1))
        except NotFoundError:
            if existing is None:
                raise
            logger.info("The table's state at the end of %s has expired; the existing tag stays", day)
            return existing
    candidates = [number for number in sorted(own.tidied, reverse=True) if number > base]
    if existing is not None:
        candidates.insert(0, existing)
    if existing is not None and existing in own.tidied and _agree_as_far_as_known(table, base, existing):
        return existing
    return next((number for number in candidates if number == base or table.have_same_rows(base, number)), base)


def _agree_as_far_as_known(table: Snapshots, base: int, existing: int) -> bool:
    """Whether none of the snapshots after `base` up to `existing` that have not expired changed rows.

    A cleared run finds its own tag after its snapshots expired. The rows were compared when the tag was made.
    """
    if existing < base:
        return False
    oldest = table.snapshots()["snapshot_id"][0].as_py()
    return table.have_same_rows(max(base, min(oldest - 1, existing)), existing)
