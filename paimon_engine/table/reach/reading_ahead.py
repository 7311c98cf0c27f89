"""Reads manifest entries of many snapshots in order, several snapshots ahead in threads.

So the latency of the storage adds up once per `_AHEAD` snapshots. At most the entries of so many are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from paimon_engine.errors import PaimonError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.reach.reachability import Root, RootIdentity
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads

Read = Callable[[TableHandle, Snapshot], list[ManifestEntry]]

_AHEAD: Final = 32


class ReadingAhead:
    """Reads entries of `roots`, which are requested in this order; those of other roots are read on request."""

    def __init__(self, table: TableHandle, roots: Sequence[Root] = ()) -> None:
        self._table = table
        self._roots = roots
        self._index_of = {root.identity: index for index, root in enumerate(roots)}
        self._found: dict[tuple[Read, RootIdentity], list[ManifestEntry] | PaimonError] = {}

    def __call__(self, read: Read, root: Root) -> list[ManifestEntry]:
        """What `read` gives for the snapshot of a root. Raises: as `read` does."""
        index = self._index_of.get(root.identity)
        if index is None:
            return read(self._table, root.snapshot)
        if (read, root.identity) not in self._found:
            ahead = self._roots[index : index + _AHEAD]
            found = in_threads(self._table, lambda table, item: _try(read, table, item), ahead)
            self._found |= {(read, item.identity): entries for item, entries in zip(ahead, found, strict=True)}
        entries = self._found.pop((read, root.identity))
        if isinstance(entries, PaimonError):
            raise entries
        return entries


def _try(read: Read, table: TableHandle, root: Root) -> list[ManifestEntry] | PaimonError:
    try:
        return read(table, root.snapshot)
    except PaimonError as error:
        return error
