"""Manifests and manifest lists that this process has read or written, so that its next commit need not fetch them.

These files never change, and their names are used once. A writer of many small commits would otherwise read
the same manifests again before each. Only writes and compactions remember: what looks whether files are there, or are
whole, and what deletes, reads the store.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from paimon_engine.meta.manifest import ManifestEntry, ManifestFile, counts

_BYTES_MAX: Final = 16 << 20
ENTRIES_KEPT_MAX: Final = 10_000
"""Of decoded manifests, which take some 2 KB each."""
_BUCKETS_MAX: Final = 1_000
"""Of a set of partitions; what a writer needs of more buckets is not remembered."""
_NUMBERS_MAX: Final = 100
"""Sets of partitions of whose buckets it is remembered."""


class KnownNumbers(NamedTuple):
    """Of the live files in these manifests, or of some of their partitions: what a writer needs of their buckets.

    The next sequence number of each bucket, and the number of buckets of each partition.
    """

    manifests: Sequence[ManifestFile]
    next_sequence: Mapping[tuple[bytes, int], int]
    total_buckets: Mapping[bytes, int]


class MetadataMemory:
    """Bytes of files by path, at most 16 MiB of them, and entries of manifests, at most 10,000; those used last.

    Also what a writer needs of the buckets of at most 100 sets of partitions.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        """Knows nothing yet."""
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._manifests: OrderedDict[tuple[str, int], Sequence[ManifestEntry]] = OrderedDict()
        self._entries = 0
        self._numbers: OrderedDict[frozenset[bytes], KnownNumbers] = OrderedDict()
        self._is_asked = False
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes | None:
        """The bytes of that file, if they are known."""
        with self._lock:
            data = self._files.get(path)
            if data is not None:
                self._files.move_to_end(path)
            return data

    def put(self, path: str, data: bytes) -> None:
        """Remembers a file."""
        with self._lock:
            self._bytes += len(data) - len(self._files.pop(path, b""))
            self._files[path] = data
            while self._bytes > _BYTES_MAX:
                _, forgotten = self._files.popitem(last=False)
                self._bytes -= len(forgotten)

    def numbers(self, partitions: frozenset[bytes]) -> KnownNumbers | None:
        """What is known of the buckets of exactly these partitions."""
        with self._lock:
            return self._numbers.get(partitions)

    def put_numbers(self, partitions: frozenset[bytes], known: KnownNumbers) -> None:
        """Remembers it, if it is not much, and forgets what was remembered first, if that is many."""
        with self._lock:
            self._numbers.pop(partitions, None)
            if len(known.next_sequence) <= _BUCKETS_MAX:
                self._numbers[partitions] = known
            while len(self._numbers) > _NUMBERS_MAX:
                self._numbers.popitem(last=False)

    def is_asked_again(self) -> bool:
        """Whether this has been asked before: a process that looks once has nothing of what is remembered."""
        with self._lock:
            before, self._is_asked = self._is_asked, True
            return before

    def entries(self, path: str, listed: ManifestFile) -> Sequence[ManifestEntry] | None:
        """The entries of a manifest, if they are known and as many as its list says."""
        with self._lock:
            found = self._manifests.get((path, listed.size_bytes))
            if found is None or counts(found) != (listed.added_count, listed.deleted_count):
                return None
            self._manifests.move_to_end((path, listed.size_bytes))
            return found

    def put_entries(self, path: str, listed: ManifestFile, entries: Sequence[ManifestEntry]) -> None:
        """Remembers the entries of a manifest, unless they alone are too many."""
        if len(entries) > ENTRIES_KEPT_MAX:
            return
        key = path, listed.size_bytes
        with self._lock:
            self._entries += len(entries) - len(self._manifests.pop(key, ()))
            self._manifests[key] = entries
            while self._entries > ENTRIES_KEPT_MAX:
                _, forgotten = self._manifests.popitem(last=False)
                self._entries -= len(forgotten)
