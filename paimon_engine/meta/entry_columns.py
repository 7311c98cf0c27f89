"""Many manifest entries in columns: a fraction of the memory of objects, which are made of those that are requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from paimon_engine.frozen import Same, instances
from paimon_engine.meta.field_columns import ByteStrings, FieldColumn, NumberColumn, Statistics
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry
from paimon_engine.meta.unknown_fields import NO_FIELDS

Ints = NDArray[np.int64]

NumberName = Literal[
    "bucket",
    "total_buckets",
    "schema_id",
    "level",
    "size_bytes",
    "row_count",
    "min_sequence_number",
    "max_sequence_number",
    "creation_time_ms",
]
"""Fields of entries and their files that are numbers."""
KeyName = Literal["min_key", "max_key"]

_KINDS: Final = [FileKind(kind) for kind in (0, 1)]
_AT_ONCE: Final = 1_000
"""Entries that are made together where one after the other is looked at."""


class EntryPart(Protocol):
    """Entries, by their places among them."""

    partitions: Sequence[bytes]

    def __len__(self) -> int: ...

    def numbers(self, name: NumberName) -> tuple[Ints, NDArray[np.bool_] | None]:
        """A field of all n entries, of shape (n,), and where it is not null, in the same shape; None if it never is."""

    def keys(self, name: KeyName, places: Ints) -> NDArray[np.uint8] | None:
        """The keys at these places, each in a row; None where they have other lengths, or none."""

    def at(self, places: Ints) -> list[ManifestEntry]:
        """The entries at these places, in that order."""


def all_of(part: EntryPart) -> list[ManifestEntry]:
    """The entries of a part, in order."""
    return part.at(np.arange(len(part)))


class EntryObjects:
    """Entries that are objects already."""

    def __init__(self, entries: Sequence[ManifestEntry]) -> None:
        self._entries = entries
        self.partitions: Sequence[bytes] = [entry.partition for entry in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def numbers(self, name: NumberName) -> tuple[Ints, NDArray[np.bool_] | None]:
        is_of_entry = name in ("bucket", "total_buckets")
        owners: Sequence[Any] = self._entries if is_of_entry else [entry.file for entry in self._entries]
        values = [getattr(owner, name) for owner in owners]
        present = np.fromiter((value is not None for value in values), bool, len(values))
        return np.fromiter((value or 0 for value in values), np.int64, len(values)), present

    def keys(self, name: KeyName, places: Ints) -> NDArray[np.uint8] | None:
        found = [getattr(self._entries[place].file, name) for place in places.tolist()]
        if not found or not found[0] or len(set(map(len, found))) > 1:
            return None
        return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1)

    def at(self, places: Ints) -> list[ManifestEntry]:
        return list(map(self._entries.__getitem__, places.tolist()))


class EntryColumns:
    """Entries in columns; `fields` are the columns of `DataFile`, in the order of its fields but the last."""

    def __init__(
        self,
        kinds: Ints,
        partitions: Sequence[bytes],
        buckets: Ints,
        total_buckets: Ints,
        fields: Mapping[str, FieldColumn],
    ) -> None:
        self._kinds, self.partitions, self._buckets, self._total_buckets = kinds, partitions, buckets, total_buckets
        self._fields = fields

    def __len__(self) -> int:
        return len(self._kinds)

    def numbers(self, name: NumberName) -> tuple[Ints, NDArray[np.bool_] | None]:
        if name in ("bucket", "total_buckets"):
            return self._buckets if name == "bucket" else self._total_buckets, None
        found = self._fields[name]
        if isinstance(found, Same):
            value = found.value
            return np.full(len(self), value or 0, np.int64), np.zeros(len(self), bool) if value is None else None
        numbers = cast(NumberColumn, found)
        return numbers.values, numbers.present

    def keys(self, name: KeyName, places: Ints) -> NDArray[np.uint8] | None:
        match self._fields[name]:
            case Same() as found if found.value:
                return np.broadcast_to(np.frombuffer(found.value, np.uint8), (len(places), len(found.value)))
            case ByteStrings() as found:
                return found.rows(places)
            case _:
                return None

    @property
    def has_indexes(self) -> bool:
        """Whether an entry may have an index of its file."""
        found = self._fields["embedded_file_index"]
        return not (isinstance(found, Same) and found.value is None)

    def kinds(self, places: Ints) -> Ints | None:
        """A number for each entry at these places: equal for files of a schema and a format, ORC or others.

        None where entries may differ in the columns of which files have values or statistics.
        """
        names = self._fields["name"]
        alike = all(isinstance(self._fields[name], Same) for name in ("value_stats_columns", "extras"))
        if not alike or not isinstance(names, ByteStrings):
            return None
        return 2 * self.numbers("schema_id")[0][places] + names.end_with(b".orc", places)

    def statistics(self, name: Literal["key_stats", "value_stats"], places: Ints) -> list[list[Any]]:
        """Smallest values, largest values and null counts of the files of the entries at these places."""
        found = self._fields[name]
        if isinstance(found, Same):
            one = found.value
            return [[value] * len(places) for value in (one.min_values, one.max_values, one.null_counts)]
        return cast(Statistics, found).apart(places)

    def at(self, places: Ints) -> list[ManifestEntry]:
        count = len(places)
        files = instances(DataFile, count, [*(column.at(places) for column in self._fields.values()), Same(NO_FIELDS)])
        return instances(
            ManifestEntry,
            count,
            [
                list(map(_KINDS.__getitem__, self._kinds[places].tolist())),
                list(map(self.partitions.__getitem__, places.tolist())),
                self._buckets[places].tolist(),
                self._total_buckets[places].tolist(),
                files,
                Same(NO_FIELDS),
            ],
        )


def in_columns(entries: Sequence[ManifestEntry]) -> ColumnarEntries:
    """The entries, which may be in columns already."""
    return entries if isinstance(entries, ColumnarEntries) else ColumnarEntries([EntryObjects(entries)])


class ColumnarEntries(Sequence[ManifestEntry]):
    """Entries of several parts; each is made whenever it is requested, so that equal ones need not be identical."""

    def __init__(self, parts: Sequence[EntryPart], places: Ints | None = None) -> None:
        """`places` are those of the entries among all of the parts, in their order; None for all."""
        self._parts = parts
        self._begins = np.cumsum([0, *(len(part) for part in parts)])
        self._places = np.arange(self._begins[-1]) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> ManifestEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[ManifestEntry]: ...
    def __getitem__(self, index: int | slice) -> ManifestEntry | list[ManifestEntry]:
        if isinstance(index, slice):
            return self._made(self._places[index])
        return self._made(self._places[[index]])[0]

    def __iter__(self) -> Iterator[ManifestEntry]:
        for begin in range(0, len(self), _AT_ONCE):
            yield from self[begin : begin + _AT_ONCE]

    def at(self, indices: Ints) -> list[ManifestEntry]:
        """The entries at these indices, in that order."""
        return self._made(self._places[indices])

    def chosen(self, which: NDArray[Any]) -> ColumnarEntries:
        """Those at these indices, or where an array of as many booleans is true."""
        return ColumnarEntries(self._parts, self._places[which])

    def by_part(self) -> Iterator[tuple[EntryPart, Ints, Ints]]:
        """Each part with entries, their places in it, and their indices among these."""
        return self._by_part(self._places)

    def _by_part(self, places: Ints) -> Iterator[tuple[EntryPart, Ints, Ints]]:
        numbers = np.searchsorted(self._begins, places, side="right") - 1
        for number in np.unique(numbers).tolist():
            [who] = (numbers == number).nonzero()
            yield self._parts[number], places[who] - self._begins[number], who

    def _made(self, places: Ints) -> list[ManifestEntry]:
        found: NDArray[Any] = np.empty(len(places), object)
        for part, within, who in self._by_part(places):
            found[who] = part.at(within)
        return cast("list[ManifestEntry]", found.tolist())

    # ── columns ─────────────────────────────────────────────────────────────────────────────────

    def numbers(self, name: NumberName) -> Ints:
        """A field of all entries, zero where it is null."""
        return self._joined([part.numbers(name)[0] for part in self._parts], np.int64)[self._places]

    def present(self, name: NumberName) -> NDArray[np.bool_]:
        """Where the field is not null."""
        found = [(part, part.numbers(name)[1]) for part in self._parts]
        whole = [np.ones(len(part), bool) if present is None else present for part, present in found]
        return self._joined(whole, np.bool_)[self._places]

    def partitions(self) -> tuple[list[bytes], Ints]:
        """Each partition that occurs in the parts, and the number of each entry's one among them."""
        numbers: dict[bytes, int] = {}
        codes = []
        for part in self._parts:
            for partition in dict.fromkeys(part.partitions):
                numbers.setdefault(partition, len(numbers))
            codes.append(np.fromiter(map(numbers.__getitem__, part.partitions), np.int64, len(part)))
        return list(numbers), self._joined(codes, np.int64)[self._places]

    def keys(self, name: KeyName) -> NDArray[np.uint8] | None:
        """The keys of all entries, each in a row; None where they have other lengths, or none."""
        found: NDArray[np.uint8] | None = None
        for part, places, who in self.by_part():
            some = part.keys(name, places)
            if some is None or (found is not None and found.shape[1] != some.shape[1]):
                return None
            if found is None:
                found = np.empty((len(self), some.shape[1]), np.uint8)
            found[who] = some
        return found

    @staticmethod
    def _joined(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, kind)
