"""The types of file index: the columns that each takes, and how it is made.

Source: `FileIndexOptions`, `DataFileIndexWriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.file_index.bitmap import bitmap_settings, encode_bitmap
from paimon_engine.format.file_index.bloom import BloomBuilder, bloom_shape
from paimon_engine.format.file_index.bsi import encode_bsi
from paimon_engine.format.file_index.range_bitmap import chunk_bytes_of, encode_range_bitmap
from paimon_engine.types import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    type_to_json,
)

BLOOM_FILTER: Final = "bloom-filter"
BITMAP: Final = "bitmap"
BSI: Final = "bsi"
RANGE_BITMAP: Final = "range-bitmap"

_PREFIX: Final = "file-index."
_COLUMNS: Final = ".columns"

_DAYS_AND_TIMES: Final = frozenset({TypeRoot.DATE, TypeRoot.TIME})
_SCALARS: Final = INTEGER_ROOTS | _DAYS_AND_TIMES | TIMESTAMP_ROOTS
_TAKEN: Final[Mapping[str, frozenset[TypeRoot]]] = {
    BLOOM_FILTER: _SCALARS | FLOAT_ROOTS | STRING_ROOTS | {TypeRoot.BINARY, TypeRoot.VARBINARY},
    BITMAP: _SCALARS | FLOAT_ROOTS | STRING_ROOTS | {TypeRoot.BOOLEAN},
    BSI: _SCALARS | {TypeRoot.DECIMAL},
    RANGE_BITMAP: _SCALARS | FLOAT_ROOTS | STRING_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL},
}
KINDS: Final = tuple(_TAKEN)
"""Names of the index types that the engine knows."""

_LONG_DIGITS: Final = 18
_MICROS_PRECISION: Final = 6


def takes(kind: str, data_type: DataType) -> bool:
    """Whether an index of that type supports a column of that type; unknown types of index support none."""
    if not isinstance(data_type, AtomicType) or data_type.root not in _TAKEN.get(kind, ()):
        return False
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision <= _LONG_DIGITS
    return kind != RANGE_BITMAP or data_type.root not in TIMESTAMP_ROOTS or data_type.precision <= _MICROS_PRECISION


# ── options of a table ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index that a table's options require; `key` chooses the values of one key of a map column."""

    kind: str
    column: str
    key: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What the names of its options begin with."""
        return f"{_PREFIX}{self.kind}.{self.name(self.column)}"

    def name(self, column: str) -> str:
        """Name of the index in a container, where the column has that name."""
        return column if self.key is None else f"{column}[{self.key}]"


def index_specs(raw: Mapping[str, str]) -> list[IndexSpec]:
    """The indexes that table options require.

    Raises: InvalidArgumentError for an empty column name, and for options of a column without such an index.
    """
    wanted: dict[tuple[str, str], dict[str, str]] = {}
    for key, text in raw.items():
        if key.startswith(_PREFIX) and key.endswith(_COLUMNS) and len(key) > len(_PREFIX) + len(_COLUMNS):
            kind = key[len(_PREFIX) : -len(_COLUMNS)]
            names = [name.strip() for name in text.split(",")]
            if not all(names):
                raise InvalidArgumentError(f"option '{key}' = {text!r} has an empty column name")
            wanted.update({(kind, name): {} for name in names})
    of_maps: dict[tuple[str, str], dict[str, str]] = {(kind, _split(name)[0]): {} for kind, name in wanted}
    for key, text in raw.items():
        parts = key.removeprefix(_PREFIX).split(".")
        if not key.startswith(_PREFIX) or key.endswith(_COLUMNS) or len(parts) != 3:
            continue
        kind, name, option = parts
        options = wanted.get((kind, name), of_maps.get((kind, name)))
        if options is None:
            raise InvalidArgumentError(f"option '{key}': '{_PREFIX}{kind}{_COLUMNS}' does not name column {name!r}")
        options[option] = text
    return [
        IndexSpec(kind, *_split(name), {**of_maps[kind, _split(name)[0]], **options})
        for (kind, name), options in wanted.items()
    ]


def _split(name: str) -> tuple[str, str | None]:
    """Column and key of `column` or `column[key]`."""
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and name.endswith("]") else (name, None)


def check_column(spec: IndexSpec, columns: RowType) -> None:
    """Raises InvalidArgumentError or UnsupportedError naming the option, if there can be no such index of a column."""
    if spec.column not in columns.names:
        raise InvalidArgumentError(
            f"'{_PREFIX}{spec.kind}{_COLUMNS}': no column {spec.column!r}; the columns are {', '.join(columns.names)}; "
            "take the name out of the option"
        )
    if spec.kind in KINDS:
        indexed_type(spec, columns.field(spec.column).type)


def check_settings(spec: IndexSpec, columns: RowType) -> None:
    """Raises InvalidArgumentError naming an option by which an index that `check_column` allows cannot be made."""
    if spec.kind not in KINDS:
        return
    data_type = indexed_type(spec, columns.field(spec.column).type)
    match spec.kind:
        case "bloom-filter":
            bloom_shape(spec.options, spec.prefix)
        case "bitmap":
            bitmap_settings(spec.options, data_type, spec.prefix)
        case "range-bitmap":
            chunk_bytes_of(spec.options, data_type, spec.prefix)


def indexed_type(spec: IndexSpec, column_type: DataType) -> AtomicType:
    """Type of the values that go into the index.

    Raises: UnsupportedError naming the option, if such an index does not support them.
    """
    data_type = column_type
    if spec.key is not None and isinstance(column_type, MapType) and _is_text(column_type.key):
        data_type = column_type.value
    elif spec.key is not None:
        raise UnsupportedError(
            f"'{_PREFIX}{spec.kind}{_COLUMNS}': {spec.name(spec.column)!r} is not a map with text as key, "
            f"but {type_to_json(column_type)}"
        )
    if isinstance(data_type, AtomicType) and takes(spec.kind, data_type):
        return data_type
    raise UnsupportedError(
        f"'{_PREFIX}{spec.kind}{_COLUMNS}': no such index of {spec.name(spec.column)!r}, "
        f"which is {type_to_json(data_type)}"
    )


def _is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS


# ── making ──────────────────────────────────────────────────────────────────────────────────────


class IndexBuilder(Protocol):
    """Makes an index of a column."""

    def add(self, column: pa.Array) -> None:
        """Takes in the next rows, in stored form."""

    def finish(self) -> bytes | None:
        """Bytes of the index; None if it cannot store these values."""


class _Collecting:
    """Collects the column until all of it is known."""

    def __init__(self, encode: Callable[[Sequence[pa.Array]], bytes | None]) -> None:
        self._encode = encode
        self._chunks: list[pa.Array] = []

    def add(self, column: pa.Array) -> None:
        self._chunks.append(column)

    def finish(self) -> bytes | None:
        return self._encode(self._chunks)


def index_builder(spec: IndexSpec, data_type: AtomicType) -> IndexBuilder:
    """Builder of the index for values of that type.

    Raises: InvalidArgumentError for wrong options of the index.
    """
    options = spec.options
    match spec.kind:
        case "bloom-filter":
            return BloomBuilder(options, spec.prefix)
        case "bitmap":
            settings = bitmap_settings(options, data_type, spec.prefix)
            return _Collecting(lambda chunks: encode_bitmap(chunks, data_type, settings))
        case "bsi":
            return _Collecting(encode_bsi)
        case _:
            assert spec.kind == RANGE_BITMAP
            chunk_bytes = chunk_bytes_of(options, data_type, spec.prefix)
            return _Collecting(lambda chunks: encode_range_bitmap(chunks, data_type, chunk_bytes))
