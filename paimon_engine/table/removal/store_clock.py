"""Which files are old by the clock of their store.

The times of files are those of the store, ages are counted from the clock of this machine. If that one is ahead by more
than the age of a clean-up, the files that running jobs have not committed yet look like old orphans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.storage.base import FileInfo
from paimon_engine.table.reach.clean_up_plan import forget_plan, plan_path, write_plan
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.units import duration_text

_AHEAD_MAX_MS: Final = 60_000
"""So far clocks may differ."""


def old_by_the_store(
    table: TableHandle, files: Sequence[FileInfo], older_than_ms: int
) -> tuple[tuple[FileInfo, ...], str | None]:
    """Those of the files that are as old by the clock of the store, and a note if that leaves some out.

    `older_than_ms` (epoch milliseconds) is the limit by this machine's clock. A file is stored, and deleted, to see how
    far that one is ahead, at least: a store that takes long for it looks nearer than it is.

    Raises: StorageError.
    """
    if not files:
        return (), None
    asked_ms = table.env.clock()
    probe = write_plan(table, ())
    try:
        stored_ms = table.env.storage.stat(plan_path(table, probe.id)).modified_ms
    finally:
        forget_plan(table, probe.id)
    ahead_ms = asked_ms - stored_ms
    if stored_ms <= 0 or ahead_ms <= _AHEAD_MAX_MS:
        return tuple(files), None
    old = tuple(info for info in files if info.modified_ms < older_than_ms - ahead_ms)
    left = len(files) - len(old)
    stay = "1 file stays, which is" if left == 1 else f"{left:,} files stay, which are"
    ahead = duration_text(ahead_ms // 60_000 * 60_000)
    note = f"{stay} too young by the store's clock: this machine's is {ahead} ahead; set both by a time server"
    return old, note if left else None
