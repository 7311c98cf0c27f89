"""Entries of manifests as columns: which files are added and removed where, and the fields of those that matter.

What is here has passed the checks of `manifest.entry_from_record`, column by column, and gives the same entries.
Manifests with anything unusual raise `NotPlain`; those readers go through `manifest`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.avro_columns import Columns, NotPlain, columns_of
from paimon_engine.format.byte_spans import all_alike, bytes_at, cut, cut_once, different_lengths, made_once
from paimon_engine.format.stored import INT_MAX, LONG_MAX, checked_name
from paimon_engine.frozen import Same
from paimon_engine.meta.entry_columns import EntryColumns, EntryObjects, EntryPart, all_of
from paimon_engine.meta.field_columns import ByteStrings, FieldColumn, NumberColumn, Objects, statistics_column
from paimon_engine.meta.manifest import ENTRY_VERSION, MANIFEST_SCHEMA, ManifestEntry, file_extras
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.meta.unknown_fields import NO_FIELDS

Ints = NDArray[np.int64]

_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""Years 1 to 9999."""
_NAME_BYTES_MAX: Final = 512
_LENGTHS_MAX: Final = 64
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "_VERSION": (ENTRY_VERSION, ENTRY_VERSION),
    "_KIND": (0, 1),
    "_BUCKET": (-2, INT_MAX),
    "_TOTAL_BUCKETS": (-2, INT_MAX),
    "_FILE._FILE_SIZE": (0, LONG_MAX),
    "_FILE._ROW_COUNT": (0, LONG_MAX),
    "_FILE._SCHEMA_ID": (0, LONG_MAX),
    "_FILE._LEVEL": (0, INT_MAX),
    # Zero where they are null.
    "_FILE._DELETE_ROW_COUNT": (0, LONG_MAX),
    "_FILE._FILE_SOURCE": (0, 1),
    "_FILE._CREATION_TIME": (_MS_MIN, _MS_MAX),
}
_NAME_BYTES: Final = np.array([0x20 <= code < 0x7F and chr(code) not in "/\\" for code in range(256)])
"""Bytes of names of files as writers make them; `checked_name` decides about other bytes."""

# ── schemas ─────────────────────────────────────────────────────────────────────────────────────


def _plain_type(avro_type: Any) -> Any:
    """The type without names and defaults; types that no manifest has are not changed."""
    match avro_type:
        case ["null", value]:
            return ("null", _plain_type(value))
        case {"type": "array", "items": items}:
            return ("array", _plain_type(items))
        case {"type": "record", "fields": fields}:
            return {field["name"]: _plain_type(field["type"]) for field in fields}
        case {"type": str(name), **rest} if rest.keys() <= {"logicalType"}:
            kind = rest.get("logicalType")
            return name if kind in (None, "timestamp-millis", "local-timestamp-millis") else avro_type
        case _:
            return avro_type


_KNOWN: Final = _plain_type(MANIFEST_SCHEMA)


def _layout(plain: Any) -> Any:
    """What decides about the bytes of values of a plain type: the order of fields as well."""
    match plain:
        case dict():
            return [(name, _layout(kind)) for name, kind in plain.items()]
        case tuple():
            return tuple(map(_layout, plain))
        case _:
            return plain


@lru_cache(maxsize=64)
def has_our_layout(schema: bytes) -> bool:
    """Whether records of a manifest with that schema are, byte by byte, those of `MANIFEST_SCHEMA`."""
    return bool(_layout(_plain_type(json.loads(schema))) == _layout(_KNOWN))


@lru_cache(maxsize=64)
def _check_schema(schema: bytes) -> None:
    """Raises NotPlain for other fields than those of manifests, and for fields of other types."""
    found = _plain_type(json.loads(schema))
    if not isinstance(found, dict) or not isinstance(found.get("_FILE"), dict):
        raise NotPlain("no schema of a manifest")
    for fields, known in ((found, _KNOWN), (found["_FILE"], _KNOWN["_FILE"])):
        optional = {name for name, kind in known.items() if isinstance(kind, tuple) and kind[0] == "null"}
        if not (known.keys() - optional <= fields.keys() <= known.keys()):
            raise NotPlain("other fields than a manifest has")
        if any(fields[name] != known[name] for name in fields if name != "_FILE"):
            raise NotPlain("fields of other types than in a manifest")


# ── columns ─────────────────────────────────────────────────────────────────────────────────────


class ManifestColumns:
    """Entries of some manifests, in order. `kinds`, `buckets` and so on: a number for each.

    `partitions` are the BinaryRow bytes, and `names` a hash of the names of their files: equal for equal names.
    """

    def __init__(self, schema: bytes, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Decodes and checks blocks of Avro containers with that schema. Raises: NotPlain."""
        _check_schema(schema)
        self._columns = columns_of(schema, blocks)
        self._arrays = self._columns.arrays
        self._texts: dict[bytes, tuple[str, ...]] = {}
        self._check()
        self.kinds, self.buckets = self._arrays["_KIND"], self._arrays["_BUCKET"]
        self.total_buckets, self.schema_ids = self._arrays["_TOTAL_BUCKETS"], self._arrays["_FILE._SCHEMA_ID"]
        self.row_counts = self._arrays["_FILE._ROW_COUNT"]
        self.partitions = made_once(cut_once(self._columns.data, *self._ends("_PARTITION", slice(None))), bytes)
        self.names = _checked_names(self._columns)

    @property
    def record_ends(self) -> Ints:
        """Where the record of each entry ends in the bytes of all blocks."""
        return self._columns.ends

    def __len__(self) -> int:
        return self._columns.count

    def _check(self) -> None:
        for name, (low, high) in _RANGES.items():
            values = self._arrays.get(name)
            if values is not None and len(values) and (values.min() < low or values.max() > high):
                raise NotPlain(f"{name} beyond its range")
        for name in self._lists_of_texts():
            for raw in self._different(name):
                self._note_texts(raw, names_files=name == "_FILE._EXTRA_FILES")
        for path in self._different("_FILE._EXTERNAL_PATH"):
            _text(path)

    def _lists_of_texts(self) -> list[str]:
        names = ("_FILE._EXTRA_FILES", "_FILE._VALUE_STATS_COLS", "_FILE._WRITE_COLS")
        return [name for name in names if f"{name}.begin" in self._arrays]

    def _there(self, name: str) -> Any:
        """Where the column is not null; it may be missing from the schema."""
        present = self._arrays.get(f"{name}.present")
        if present is not None:
            return present
        return slice(None) if f"{name}.begin" in self._arrays else slice(0)

    def _different(self, name: str) -> set[bytes]:
        """Each span that occurs where the column is not null."""
        which = self._there(name)
        if f"{name}.begin" in self._arrays:
            begins, ends = self._ends(name, which)
            if len(begins) and all_alike(self._columns.data, begins, ends):
                return {self._columns.data[begins[0] : ends[0]]}
        return set(self._spans(name, which))

    def _note_texts(self, raw: bytes, *, names_files: bool) -> None:
        found = tuple(_text(item) for item in _items(raw))
        if names_files:
            try:
                for item in found:
                    checked_name(item, "")
            except ValueError as error:
                raise NotPlain(str(error)) from None
        self._texts[raw] = found

    def _spans(self, name: str, which: Any) -> list[bytes]:
        if f"{name}.begin" not in self._arrays:
            return []
        return cut(self._columns.data, *self._ends(name, which))

    def _ends(self, name: str, which: Any) -> tuple[Ints, Ints]:
        return self._arrays[f"{name}.begin"][which], self._arrays[f"{name}.end"][which]

    # ── entries ─────────────────────────────────────────────────────────────────────────────────

    def entries(self, which: Ints) -> list[ManifestEntry]:
        """The entries at these indices, in that order."""
        return all_of(self.chosen(which))

    def chosen(self, which: Ints, *, statistics: bool = True) -> EntryPart:
        """Copies of the entries at these indices, in that order; without statistics of files where they are not needed.

        What else was decoded is not kept by them.
        """
        if not len(which):
            return EntryObjects([])
        partitions = list(map(self.partitions.__getitem__, which.tolist()))
        return EntryColumns(
            self.kinds[which],
            partitions,
            self.buckets[which],
            self.total_buckets[which],
            self._files(which, statistics=statistics),
        )

    def _files(self, which: Ints, *, statistics: bool) -> dict[str, FieldColumn]:
        """The fields of the data files of the entries at these indices."""
        texts = self._texts.__getitem__
        return {
            "name": ByteStrings(self._columns.data, *self._ends("_FILE._FILE_NAME", which), as_text=True),
            "size_bytes": self._numbers("_FILE._FILE_SIZE", which),
            "row_count": self._numbers("_FILE._ROW_COUNT", which),
            "min_key": self._values("_FILE._MIN_KEY", which),
            "max_key": self._values("_FILE._MAX_KEY", which),
            "key_stats": self._stats("_FILE._KEY_STATS", which) if statistics else Same(EMPTY_STATS),
            "value_stats": self._stats("_FILE._VALUE_STATS", which) if statistics else Same(EMPTY_STATS),
            "min_sequence_number": self._numbers("_FILE._MIN_SEQUENCE_NUMBER", which),
            "max_sequence_number": self._numbers("_FILE._MAX_SEQUENCE_NUMBER", which),
            "schema_id": self._numbers("_FILE._SCHEMA_ID", which),
            "level": self._numbers("_FILE._LEVEL", which),
            "extra_files": self._values("_FILE._EXTRA_FILES", which, texts),
            "creation_time_ms": self._numbers("_FILE._CREATION_TIME", which),
            "delete_row_count": self._numbers("_FILE._DELETE_ROW_COUNT", which),
            "embedded_file_index": self._values("_FILE._EMBEDDED_FILE_INDEX", which),
            "file_source": self._numbers("_FILE._FILE_SOURCE", which),
            "value_stats_columns": self._values("_FILE._VALUE_STATS_COLS", which, texts) if statistics else Same(()),
            "external_path": self._values("_FILE._EXTERNAL_PATH", which, bytes.decode),
            "extras": self._extras(which),
        }

    def _stats(self, name: str, which: Ints) -> FieldColumn:
        return statistics_column(
            self._values(f"{name}._MIN_VALUES", which),
            self._values(f"{name}._MAX_VALUES", which),
            self._values(f"{name}._NULL_COUNTS", which, _null_counts, missing=()),
        )

    def _numbers(self, name: str, which: Ints) -> FieldColumn:
        """Numbers, None where they are null or missing from the schema."""
        if name not in self._arrays:
            return Same(None)
        values, present = self._arrays[name][which], self._arrays.get(f"{name}.present")
        there = None if present is None else present[which]
        if there is not None and not there.all():
            return NumberColumn(values, there) if there.any() else Same(None)
        return Same(int(values[0])) if (values == values[0]).all() else NumberColumn(values)

    def _values(
        self, name: str, which: Ints, make: Callable[[bytes], Any] | None = None, *, missing: Any = None
    ) -> FieldColumn:
        """The spans, or what `make` makes of them, once for equal ones; where they are not there, `missing`."""
        if f"{name}.begin" not in self._arrays:
            return Same(missing)
        present = self._arrays.get(f"{name}.present")
        if present is not None and not present[which].all():
            [who] = present[which].nonzero()
            if not len(who):
                return Same(missing)
            values = [missing] * len(which)
            for index, value in zip(who.tolist(), self._made(name, which[who], make), strict=True):
                values[index] = value
            return Objects(values)
        data, (begins, ends) = self._columns.data, self._ends(name, which)
        if all_alike(data, begins, ends):
            span = data[begins[0] : ends[0]]
            return Same(span if make is None else make(span))
        return ByteStrings(data, begins, ends) if make is None else Objects(self._made(name, which, make))

    def _made(self, name: str, which: Ints, make: Callable[[bytes], Any] | None) -> list[Any]:
        spans = self._spans(name, which)
        return spans if make is None else made_once(spans, make)

    def _extras(self, which: Ints) -> FieldColumn:
        def listed(raw: bytes) -> list[Any]:
            return list(self._texts[raw])

        columns = {
            "_FIRST_ROW_ID": self._numbers("_FILE._FIRST_ROW_ID", which),
            "_WRITE_COLS": self._values("_FILE._WRITE_COLS", which, listed),
            "_WRITE_COLS_SEQUENCES": self._values("_FILE._WRITE_COLS_SEQUENCES", which, _longs),
        }
        if all(isinstance(column, Same) and column.value is None for column in columns.values()):
            return Same(NO_FIELDS)
        found = [column.at(np.arange(len(which))) for column in columns.values()]
        each = [repeat(values.value, len(which)) if isinstance(values, Same) else values for values in found]
        return Objects([file_extras(dict(zip(columns, values, strict=True))) for values in zip(*each, strict=True)])


# ── values ──────────────────────────────────────────────────────────────────────────────────────


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NotPlain("a text that is no UTF-8") from None


def _number(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while raw[at] >= 0x80:
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    value |= raw[at] << shift
    return (value >> 1) ^ -(value & 1), at + 1


def _items(raw: bytes) -> list[bytes]:
    """Items of a list of texts, which has been read once already."""
    count, at = _number(raw, 0)
    found = []
    for _ in range(count):
        size, at = _number(raw, at)
        found.append(raw[at : at + size])
        at += size
    return found


def _longs(raw: bytes) -> list[int]:
    count, at = _number(raw, 0)
    found = []
    for _ in range(count):
        value, at = _number(raw, at)
        found.append(value)
    return found


def _null_counts(raw: bytes) -> tuple[int | None, ...]:
    count, at = _number(raw, 0)
    if len(raw) == at + 2 * count + 1 and raw[at:-1:2] == b"\2" * count:
        # All of them are set, in a byte each.
        return tuple(map(_SMALL.__getitem__, raw[at + 1 : -1 : 2]))
    found: list[int | None] = []
    for _ in range(count):
        branch, at = _number(raw, at)
        value = None
        if branch:
            value, at = _number(raw, at)
        found.append(value)
    return tuple(found)


_SMALL: Final = [(value >> 1) ^ -(value & 1) for value in range(128)]
"""Numbers by the byte that holds them."""


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def _checked_names(columns: Columns) -> NDArray[np.uint64]:
    """Hashes of the names of files. Raises: NotPlain for names that are not usual."""
    begins, ends = columns.arrays["_FILE._FILE_NAME.begin"], columns.arrays["_FILE._FILE_NAME.end"]
    hashes = np.zeros(columns.count, np.uint64)
    lengths = ends - begins
    found = different_lengths(lengths)
    if len(found) > _LENGTHS_MAX or (found and not 2 < found[0] <= found[-1] <= _NAME_BYTES_MAX):
        raise NotPlain("unusual names")
    for length in found:
        [who] = (lengths == length).nonzero()
        names = bytes_at(columns.data, begins[who], length)
        if not _NAME_BYTES[names].all():
            raise NotPlain("unusual names")
        hashes[who] = _hashes(names)
    return hashes


def are_among(names: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of the hashes are among others, which ascend; `np.isin` would look at all of these each time."""
    if not len(ordered):
        return np.zeros(len(names), bool)
    places = np.minimum(np.searchsorted(ordered, names), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == names
    return found


_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


def hashes_of_names(names: Sequence[bytes]) -> NDArray[np.uint64]:
    """The hashes of names, as `ManifestColumns` has them."""
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    data, begins = b"".join(names), np.cumsum(lengths) - lengths
    hashes = np.zeros(len(names), np.uint64)
    for length in different_lengths(lengths):
        [who] = (lengths == length).nonzero()
        hashes[who] = _hashes(bytes_at(data, begins[who], length))
    return hashes


def _hashes(names: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A hash for each row of bytes, which are names of one length."""
    count, length = names.shape
    padded = np.zeros((count, -(-length // 8) * 8), np.uint8)
    padded[:, :length] = names
    words = padded.view("<u8")
    found = np.full(count, length, np.uint64)
    for number in range(words.shape[1]):
        found = (found ^ words[:, number]) * _FACTOR
        found ^= found >> np.uint64(29)
    return found
