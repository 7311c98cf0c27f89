"""The live files of one root after another: what two of them share is neither folded nor checked again.

A table of 100,000 files with 300 tags has 30,000,000 pairs of a tag and a file, and a few hundred thousand files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile

Files = Mapping[FileIdentity, ManifestEntry]


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """How the live files of a root differ from those of the one before: new files, and buckets with other files."""

    added: Sequence[ManifestEntry]
    buckets: Collection[Bucket]


@dataclass(frozen=True, slots=True)
class _Folded:
    """What a manifest adds; what it removes that others have added; what it adds and removes itself."""

    added: Files
    removed: Collection[FileIdentity]
    passing: Collection[FileIdentity]


class CurrentFiles:
    """The live files of a root, by bucket and by name, and how many rows they have."""

    def __init__(self, entries_of: Callable[[ManifestFile], Sequence[ManifestEntry]]) -> None:
        """`entries_of` reads a manifest. It may raise."""
        self._entries_of = entries_of
        self._folded: dict[str, _Folded | None] = {}
        self._clear()

    def _clear(self) -> None:
        self._manifests: list[str] = []
        self._files: dict[FileIdentity, ManifestEntry] = {}
        self._buckets: dict[Bucket, dict[FileIdentity, ManifestEntry]] = {}
        self._bucket_counts: dict[bytes, Counter[int]] = {}
        self._by_name: dict[str, ManifestEntry] | None = None
        self.rows = 0

    @property
    def buckets(self) -> Collection[Bucket]:
        """Those with files."""
        return self._buckets.keys()

    def of_bucket(self, bucket: Bucket) -> Collection[ManifestEntry]:
        """The files of a bucket."""
        return self._buckets.get(bucket, {}).values()

    def of_name(self, name: str) -> ManifestEntry | None:
        """The file of a name; None if none is live."""
        if self._by_name is None:
            self._by_name = {entry.file.name: entry for entry in self._files.values()}
        return self._by_name.get(name)

    def bucket_counts(self, partition: bytes) -> list[int]:
        """The numbers of buckets that files of a partition were written for, ascending."""
        return sorted(self._bucket_counts.get(partition, ()))

    def differences(self, manifests: Sequence[ManifestFile]) -> tuple[list[str], list[str]]:
        """Names of files that are live here, and not after these manifests; and the other way round.

        Raises: FoldError if the manifests remove what they have not added, or add a file twice.
        """
        if [manifest.name for manifest in manifests] == self._manifests:
            return [], []
        others = self._fold(manifests)
        lost, foreign = set(self._files).difference(others), set(others).difference(self._files)
        return sorted(one.name for one in lost), sorted(one.name for one in foreign)

    def move_to(self, manifests: Sequence[ManifestFile]) -> FilesChanged:
        """Becomes the live files of another root.

        Raises: FoldError if the manifests remove what they have not added, or add a file twice; no file is live then.
        """
        names = [manifest.name for manifest in manifests]
        known = len(self._manifests)
        try:
            step = self._following(manifests[known:]) if names[:known] == self._manifests else None
            added, removed = self._compared(manifests) if step is None else step
        except Exception:
            self._clear()
            raise
        for identity, entry in removed.items():
            self._remove(identity, entry)
        for identity, entry in added.items():
            self._add(identity, entry)
        self._manifests, self._by_name = names, None
        changed = ((one.partition, one.bucket) for one in (*removed, *added))
        return FilesChanged(list(added.values()), dict.fromkeys(changed).keys())

    def _following(self, manifests: Iterable[ManifestFile]) -> tuple[Files, Files] | None:
        """What further manifests add and remove; None if that depends on the order of their entries."""
        added: dict[FileIdentity, ManifestEntry] = {}
        removed: dict[FileIdentity, ManifestEntry] = {}
        for manifest in manifests:
            folded = self._fold_of(manifest)
            if folded is None or any(one in added or one in self._files for one in folded.passing):
                return None
            for identity in folded.removed:
                if added.pop(identity, None) is None:
                    if identity in removed or identity not in self._files:
                        return None
                    removed[identity] = self._files[identity]
            for identity, entry in folded.added.items():
                if identity in added or (identity in self._files and identity not in removed):
                    return None
                if removed.get(identity) == entry:
                    del removed[identity]
                else:
                    added[identity] = entry
        return added, removed

    def _compared(self, manifests: Sequence[ManifestFile]) -> tuple[Files, Files]:
        """What all manifests of another root add to these files and remove from them. Raises: FoldError."""
        others = self._fold(manifests)
        # Sets of a dictionary use the hashes that it has.
        new, gone = set(others).difference(self._files), set(self._files).difference(others)
        # Only manifests that are new may say something else of a file.
        known = set(self._manifests)
        for manifest in manifests:
            if manifest.name not in known:
                folded = self._fold_of(manifest)
                again = (others if folded is None else folded.added).keys() & self._files.keys() & others.keys()
                different = [one for one in again if others[one] != self._files[one]]
                new.update(different)
                gone.update(different)
        return {one: others[one] for one in sorted(new, key=_place)}, {one: self._files[one] for one in gone}

    def _fold(self, manifests: Iterable[ManifestFile]) -> Files:
        """Raises: FoldError."""
        manifests = list(manifests)
        live: dict[FileIdentity, ManifestEntry] = {}
        for manifest in manifests:
            folded = self._fold_of(manifest)
            if folded is None or any(one in live for one in folded.passing):
                return self._fold_in_order(manifests)
            expected = len(live) + len(folded.added)
            live.update(folded.added)
            if len(live) != expected or any(live.pop(one, None) is None for one in folded.removed):
                return self._fold_in_order(manifests)
        return live

    def _fold_in_order(self, manifests: Iterable[ManifestFile]) -> Files:
        """Entry by entry. Raises: FoldError."""
        entries = (entry for manifest in manifests for entry in self._entries_of(manifest))
        return {entry.identity: entry for entry in live_files(entries)}

    def _fold_of(self, manifest: ManifestFile) -> _Folded | None:
        """None if the order of its entries counts, or they do not add up."""
        if manifest.name not in self._folded:
            self._folded[manifest.name] = _folded(self._entries_of(manifest))
        return self._folded[manifest.name]

    def _add(self, identity: FileIdentity, entry: ManifestEntry) -> None:
        self._files[identity] = entry
        self._buckets.setdefault((identity.partition, identity.bucket), {})[identity] = entry
        self.rows += entry.file.row_count
        if entry.total_buckets > 0:
            self._bucket_counts.setdefault(identity.partition, Counter())[entry.total_buckets] += 1

    def _remove(self, identity: FileIdentity, entry: ManifestEntry) -> None:
        del self._files[identity]
        bucket = identity.partition, identity.bucket
        del self._buckets[bucket][identity]
        if not self._buckets[bucket]:
            del self._buckets[bucket]
        self.rows -= entry.file.row_count
        if entry.total_buckets > 0:
            counts = self._bucket_counts[identity.partition]
            counts[entry.total_buckets] -= 1
            if not counts[entry.total_buckets]:
                del counts[entry.total_buckets]


def _folded(entries: Iterable[ManifestEntry]) -> _Folded | None:
    """What the entries of a manifest do together; None if a file comes more often than added, removed, or both."""
    added: dict[FileIdentity, ManifestEntry] = {}
    removed: set[FileIdentity] = set()
    passing: set[FileIdentity] = set()
    for entry in entries:
        identity = entry.identity
        if identity in removed or identity in passing or (entry.kind is FileKind.ADD and identity in added):
            return None
        if entry.kind is FileKind.ADD:
            added[identity] = entry
        elif added.pop(identity, None) is None:
            removed.add(identity)
        else:
            passing.add(identity)
    return _Folded(added, removed, passing)


def _place(identity: FileIdentity) -> tuple[bytes, int, int, str]:
    return identity.partition, identity.bucket, identity.level, identity.name
