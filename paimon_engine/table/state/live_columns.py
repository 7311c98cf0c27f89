"""The live files of many manifests by way of columns: entries are made only of files that are live and requested.

Manifests are decoded side by side (`meta/manifest_columns`). Those with anything unusual are read entry by entry, and
go into the same columns. Wherever entries do not add up there is no answer, and who asked goes through entries one by
one, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from paimon_engine.collection import without_collection
from paimon_engine.format.avro_blocks import Container, container
from paimon_engine.format.avro_columns import NotPlain
from paimon_engine.meta.entry_columns import ColumnarEntries, EntryObjects, EntryPart, all_of
from paimon_engine.meta.file_set import FoldError, merge_entries
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.manifest_columns import ManifestColumns, are_among, hashes_of_names
from paimon_engine.table.state.entry_choice import Choice, FoundFiles, of_buckets

Ints = NDArray[np.int64]

WIDTH_MIN: Final = 32
"""Blocks that have a record each, on average of all steps, below which decoding one by one is as fast."""
GROUP_BYTES: Final = 32 << 20
"""Unpacked bytes that are decoded side by side: enough for wide steps, and a bound for the memory that these take."""
REMOVING_SHARE: Final = 4
"""Of the entries, one of so many may be in manifests that remove files, which are decoded twice then."""
_ALONE_MAX: Final = 4
"""Manifests among which one that is not plain is not searched for."""


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Entries of some manifests: numbers of each, and how to get those at some places."""

    kinds: Ints
    buckets: Ints
    total_buckets: Ints
    schema_ids: Ints
    row_counts: Ints
    names: NDArray[np.uint64]
    partitions: Sequence[bytes]
    chosen: Callable[[Ints, bool], EntryPart]
    """Given places, and whether statistics are needed."""


ReadBytes = Callable[[Sequence[ManifestFile]], Iterable[bytes]]
"""Gives the bytes of manifests, in order."""


def live_in_columns(
    manifests: Sequence[ManifestFile],
    read: ReadBytes,
    entries_of: Callable[[ManifestFile], list[ManifestEntry]],
    choice: Choice,
) -> FoundFiles | None:
    """Entries of the chosen live files, in the order of their addition; None where entries do not add up.

    `entries_of` gives the entries of a manifest, or says what is wrong with it.

    Raises: what these two raise.
    """
    with without_collection():
        return _group_by_group(manifests, read, entries_of, choice) or _live(
            list(_parts(manifests, read(manifests), entries_of)), choice
        )


# ── decoding ────────────────────────────────────────────────────────────────────────────────────


def _parts(
    manifests: Sequence[ManifestFile],
    data: Iterable[bytes],
    entries_of: Callable[[ManifestFile], list[ManifestEntry]],
) -> Iterator[_Decoded]:
    """The entries of all manifests, in order."""
    return decoded(manifests, data, entries_of, _of_columns, _of_entries)


SideBySide = Sequence[tuple[ManifestFile, Container]]
"""Manifests that are decoded side by side."""
T = TypeVar("T")


def decoded(
    manifests: Sequence[ManifestFile],
    data: Iterable[bytes],
    entries_of: Callable[[ManifestFile], list[ManifestEntry]],
    of_columns: Callable[[SideBySide, ManifestColumns], Iterable[T]],
    of_entries: Callable[[ManifestFile, list[ManifestEntry]], T],
) -> Iterator[T]:
    """What is made of the entries of all manifests, in order: of groups in columns, and of unusual ones by entries.

    `data` are the bytes of the manifests; `entries_of` gives the entries of one, or says what is wrong with it.

    Raises: what these two raise.
    """
    group: list[tuple[ManifestFile, Container]] = []
    size_bytes = 0
    make = _Makers(entries_of, of_columns, of_entries)
    for manifest, stored in zip(manifests, data, strict=True):
        found = _container(stored)
        if group and (found is None or found.schema != group[0][1].schema or size_bytes >= GROUP_BYTES):
            yield from make.of_group(group)
            group, size_bytes = [], 0
        if found is None:
            yield of_entries(manifest, entries_of(manifest))
            continue
        group.append((manifest, found))
        size_bytes += sum(len(block) for _, block in found.blocks)
    if group:
        yield from make.of_group(group)


def _container(data: bytes) -> Container | None:
    try:
        return container(data)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the reader of entries says it
        return None


class _Makers(NamedTuple, Generic[T]):
    """What `decoded` calls."""

    entries_of: Callable[[ManifestFile], list[ManifestEntry]]
    of_columns: Callable[[SideBySide, ManifestColumns], Iterable[T]]
    of_entries: Callable[[ManifestFile, list[ManifestEntry]], T]

    def of_group(self, group: SideBySide) -> Iterable[T]:
        """What is made of a group; where one of the manifests is not plain, halves are tried."""
        counts = [count for _, one in group for count, _ in one.blocks]
        if sum(counts) < WIDTH_MIN * max(counts, default=0):
            return self._one_by_one(group)
        try:
            return list(self.of_columns(group, _columns(group)))
        except Exception:  # noqa: BLE001 - whatever the bytes are, the reader of entries says what is wrong with them
            if len(group) <= _ALONE_MAX:
                return self._one_by_one(group)
        middle = len(group) // 2
        return [*self.of_group(group[:middle]), *self.of_group(group[middle:])]

    def _one_by_one(self, group: SideBySide) -> Iterable[T]:
        return [self.of_entries(manifest, self.entries_of(manifest)) for manifest, _ in group]


def _columns(group: SideBySide) -> ManifestColumns:
    """Raises: NotPlain, also where a manifest has other numbers of entries than its list says."""
    found = ManifestColumns(group[0][1].schema, [block for _, one in group for block in one.blocks])
    for manifest, begin, end in places_of(group):
        deleted = int(found.kinds[begin:end].sum())
        if (end - begin - deleted, deleted) != (manifest.added_count, manifest.deleted_count):
            raise NotPlain("other numbers of entries than its list says")
    return found


def places_of(group: SideBySide) -> Iterator[tuple[ManifestFile, int, int]]:
    """Each manifest of a group, with the places among all entries where its own begin and end."""
    begin = 0
    for manifest, one in group:
        end = begin + sum(count for count, _ in one.blocks)
        yield manifest, begin, end
        begin = end


def _of_columns(_: SideBySide, found: ManifestColumns) -> list[_Decoded]:
    return [
        _Decoded(
            found.kinds,
            found.buckets,
            found.total_buckets,
            found.schema_ids,
            found.row_counts,
            found.names,
            found.partitions,
            lambda which, statistics: found.chosen(which, statistics=statistics),
        )
    ]


def _of_entries(_: ManifestFile, entries: Sequence[ManifestEntry]) -> _Decoded:
    def numbers(values: Any) -> Ints:
        return np.fromiter(values, np.int64, len(entries))

    return _Decoded(
        numbers(int(entry.kind) for entry in entries),
        numbers(entry.bucket for entry in entries),
        numbers(entry.total_buckets for entry in entries),
        numbers(entry.file.schema_id for entry in entries),
        numbers(entry.file.row_count for entry in entries),
        hashes_of_names([entry.file.name.encode(errors="surrogatepass") for entry in entries]),
        [entry.partition for entry in entries],
        lambda which, _: EntryObjects([entries[place] for place in which.tolist()]),
    )


# ── folding ─────────────────────────────────────────────────────────────────────────────────────


def _group_by_group(
    manifests: Sequence[ManifestFile],
    read: ReadBytes,
    entries_of: Callable[[ManifestFile], list[ManifestEntry]],
    choice: Choice,
) -> FoundFiles | None:
    """The live files where few manifests remove some: columns of a group are dropped when its entries are made.

    These manifests are decoded first, since their names tell which entries have to be looked at. None where other names
    occur twice, or many manifests remove files, so that all columns have to be kept.
    """
    removing = [item for item in manifests if item.deleted_count]
    if sum(map(_count, removing)) * REMOVING_SHARE > sum(map(_count, manifests)):
        return None
    known = dict(zip((item.name for item in removing), read(removing), strict=True))
    first = _parts(removing, known.values(), entries_of)
    removed = [part.names[part.kinds != FileKind.ADD] for part in first]
    found = _Gathered(choice, np.unique(np.concatenate(removed)) if removed else np.zeros(0, np.uint64))
    others = iter(read([item for item in manifests if item.name not in known]))
    data = (known[item.name] if item.name in known else next(others) for item in manifests)
    for part in _parts(manifests, data, entries_of):
        found.add(part)
    return found.live()


def _count(manifest: ManifestFile) -> int:
    return manifest.added_count + manifest.deleted_count


class _Gathered:
    """Live files of the groups so far: those that nothing removes, and entries that must be applied in order."""

    def __init__(self, choice: Choice, removed: NDArray[np.uint64]) -> None:
        self._choice, self._removed = choice, removed
        self._begin = self._row_count = 0
        self._names: list[NDArray[np.uint64]] = []
        self._parts: list[EntryPart] = []
        self._places: list[Ints] = []
        self._later: list[ManifestEntry] = []
        self._later_places: list[int] = []

    def add(self, part: _Decoded) -> None:
        """The next group."""
        chosen = _places_in_partitions([part], self._choice)
        if len(self._removed):
            named = are_among(part.names[chosen], self._removed)
            later, chosen = chosen[named], chosen[~named]
            self._later += all_of(part.chosen(later, self._choice.statistics))
            self._later_places += (later + self._begin).tolist()
        self._names.append(part.names[chosen])
        self._row_count += int(part.row_counts[chosen].sum())
        kept = chosen[_in_buckets([part], chosen, self._choice)]
        self._parts.append(part.chosen(kept, self._choice.statistics))
        self._places.append(kept + self._begin)
        self._begin += len(part.kinds)

    def live(self) -> FoundFiles | None:
        """All of them; None where a name occurs twice, or entries do not add up."""
        names = np.sort(np.concatenate(self._names)) if self._names else np.zeros(0, np.uint64)
        merged = _applied(self._later)
        if (names[1:] == names[:-1]).any() or merged is None:
            return None
        row_count = self._row_count + sum(entry.file.row_count for entry in merged)
        if not merged:
            return FoundFiles(ColumnarEntries(self._parts), row_count)
        place_of = {id(entry): place for entry, place in zip(self._later, self._later_places, strict=True)}
        kept = of_buckets(merged, self._choice)
        places = np.concatenate([*self._places, np.array([place_of[id(entry)] for entry in kept], np.int64)])
        return FoundFiles(_in_order_of([*self._parts, EntryObjects(kept)], places), row_count)


def _in_order_of(parts: Sequence[EntryPart], places: Ints) -> ColumnarEntries:
    """The entries of the parts in the order of their places among all entries."""
    return ColumnarEntries(parts, np.argsort(places, kind="stable"))


def _applied(entries: Sequence[ManifestEntry]) -> list[ManifestEntry] | None:
    """What remains of entries applied in order; None if they do not add up."""
    try:
        left = list(merge_entries(entries).values())
    except FoldError:
        return None
    return None if any(entry.kind is not FileKind.ADD for entry in left) else left


def _live(parts: Sequence[_Decoded], choice: Choice) -> FoundFiles | None:
    """The live files: names that occur once are added there, the others are looked at in order, entry by entry."""
    if not parts:
        return FoundFiles((), 0)
    ends = np.cumsum([len(part.kinds) for part in parts])
    chosen = _places_in_partitions(parts, choice)
    names, kinds = _joined(parts, "names")[chosen], _joined(parts, "kinds")[chosen]
    order = np.argsort(names, kind="stable")
    same = names[order][1:] == names[order][:-1]
    shared = np.zeros(len(chosen), bool)
    shared[order[1:][same]] = True
    shared[order[:-1][same]] = True
    if (kinds[~shared] != FileKind.ADD).any():
        return None
    merged = _merged(parts, ends, chosen[shared], choice)
    if merged is None:
        return None
    places = np.concatenate([chosen[~shared], merged[0]])
    row_count = int(_joined(parts, "row_counts")[places].sum())
    alone = chosen[~shared]
    alone = alone[_in_buckets(parts, alone, choice)]
    kept = _in_buckets(parts, merged[0], choice)
    remaining = [entry for entry, is_kept in zip(merged[1], kept.tolist(), strict=True) if is_kept]
    found: list[EntryPart] = [*_entries(parts, ends, alone, choice), EntryObjects(remaining)]
    return FoundFiles(_in_order_of(found, np.concatenate([alone, merged[0][kept]])), row_count)


def _joined(parts: Sequence[_Decoded], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def _places_in_partitions(parts: Sequence[_Decoded], choice: Choice) -> Ints:
    """Places, among all entries, of those in partitions that matter."""
    count = sum(len(part.kinds) for part in parts)
    if choice.partitions is None:
        return np.arange(count)
    occurring = list(dict.fromkeys(partition for part in parts for partition in part.partitions))
    wanted = frozenset(choice.partitions(occurring))
    matters = np.fromiter((partition in wanted for part in parts for partition in part.partitions), bool, count)
    return matters.nonzero()[0]


def _in_buckets(parts: Sequence[_Decoded], places: Ints, choice: Choice) -> NDArray[np.bool_]:
    """Which of the entries at these places are in buckets that matter."""
    matters = np.ones(len(places), bool)
    if choice.buckets is None or not len(places):
        return matters
    kinds = np.stack([_joined(parts, name)[places] for name in ("total_buckets", "schema_ids")])
    buckets = _joined(parts, "buckets")[places]
    for total, schema_id in np.unique(kinds, axis=1).T.tolist():
        numbers = choice.buckets(total, schema_id)
        if numbers is not None:
            others = (kinds[0] != total) | (kinds[1] != schema_id)
            matters &= others | np.isin(buckets, np.array(sorted(numbers), np.int64))
    return matters


def _merged(
    parts: Sequence[_Decoded], ends: Ints, places: Ints, choice: Choice
) -> tuple[Ints, list[ManifestEntry]] | None:
    """What remains of entries that share names, with the places of those that remain; None if they do not add up."""
    entries = [entry for part in _entries(parts, ends, places, choice) for entry in all_of(part)]
    left = _applied(entries)
    if left is None:
        return None
    place_of = {id(entry): place for entry, place in zip(entries, places.tolist(), strict=True)}
    return np.array([place_of[id(entry)] for entry in left], np.int64), left


def _entries(parts: Sequence[_Decoded], ends: Ints, places: Ints, choice: Choice) -> list[EntryPart]:
    """The entries at these places, which ascend."""
    found: list[EntryPart] = []
    begins = np.concatenate([[0], ends[:-1]])
    cuts = np.searchsorted(places, np.concatenate([begins, ends[-1:]]))
    for part, begin, first, last in zip(parts, begins, cuts[:-1], cuts[1:], strict=True):
        if first < last:
            found.append(part.chosen(places[first:last] - begin, choice.statistics))
    return found
