"""Files that Spark's own Parquet reader reads with exactly the same values.

Spark prunes columns and skips row groups in the JVM, several times as fast as a Python task can return rows. It may do
so with a file if

1. the file needs no merge, nothing of it is deleted, and it has no delete records;
2. its columns have the table's current types, which Spark reads as Arrow does; this is so for all types but TIME;
3. no two names differ only in case, which Spark ignores;
4. no default values replace its nulls, and it has the values of keys, and of partition columns, unless Spark gets them
   otherwise (`partition_columns`);
5. it has no NaN. The ranges of row groups that pypaimon and older releases write leave NaN out, and Spark trusts them:
   with a filter `d > 5`, also one of the user's own, rows with NaN would be lost;
6. Spark's file systems reach it under its path.

The filter of the read must be one that Spark decides in the same way (`conditions`). A filter of the user's own is for
Spark to decide: it may miss −0.0 if the filter is for 0.0, as it does in files that Spark has written.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from paimon_engine.lsm.delete_records import may_have_deletes
from paimon_engine.lsm.sections import Section
from paimon_engine.meta.evolution import column_sources, has_same_types
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import has_tracking
from paimon_engine.meta.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.meta.stats import UNKNOWN_STATS
from paimon_engine.meta.variants import holds_variant
from paimon_engine.predicate import bind, columns_of
from paimon_engine.spark.conditions import spark_condition
from paimon_engine.spark.partition_columns import is_readable_from_path, literals
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import is_float
from paimon_engine.table.read.file_matches import value_ranges
from paimon_engine.table.read.read_plan import ReadPart
from paimon_engine.table.read.read_unit import ReadUnit
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.types import (
    FLOAT_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_types,
    to_arrow_schema,
)

_GLOB_SIGNS: Final = frozenset("*?[]{}\\")
_MICRO_DIGITS: Final = 6


LITERALS_MAX: Final = 16
"""Partitions of a table that get a DataFrame each because names of directories do not show their values."""


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Files that one DataFrame can read: `stored` has the file's name of each column, None where the files lack it.

    Partition columns come from the names of directories below `root`, or are the same for all rows, `literals`; without
    either they are columns of the files as well.
    """

    paths: Sequence[str]
    stored: Mapping[str, str | None]
    root: str | None = None
    literals: Mapping[str, str] = field(default_factory=dict)


def native_files(part: ReadPart, schemes: Collection[str]) -> tuple[list[NativeFiles], list[ReadUnit]]:
    """Files that Spark can read itself, and the remaining units.

    `schemes` are those of paths that Spark reaches as the engine does, `file` for local ones.
    """
    columns = _columns(part)
    if not columns:
        return [], list(part.units)
    judge = _Judge(part.table, columns, schemes)
    found: dict[tuple[_Origin | bytes, tuple[str | None, ...]], list[str]] = defaultdict(list)
    left: list[ReadUnit] = []
    for unit in part.units:
        if not isinstance(unit, Split) or unit.directories:
            # Files of a chain table have other values in the partition columns.
            left.append(unit)
            continue
        rest = []
        for section in unit.sections:
            native = judge.section(unit, section)
            if native is None:
                rest.append(section)
            for path, stored in native or ():
                found[judge.origin(unit.partition, path), stored].append(path)
        if rest:
            left.append(replace(unit, sections=tuple(rest)))
    names = [column.name for column in columns]
    groups = [
        NativeFiles(paths, dict(zip(names, stored, strict=True)), *judge.known(origin))
        for (origin, stored), paths in found.items()
    ]
    return groups, left


def _columns(part: ReadPart) -> list[DataField]:
    """The columns that the read looks at; none if it is not one for Spark, with any files."""
    rows, schema = part.rows, part.table.schema
    known = schema.row_type.names
    names = [
        *(known if rows.columns is None else rows.columns),
        *(() if rows.where is None else columns_of(rows.where)),
    ]
    if rows.with_row_kinds or rows.keeps_retracts or not known or any(name not in known for name in names):
        return []
    if has_tracking(schema) or schema.table_options.data_evolution_enabled:
        return []  # files do not have all columns
    columns = [schema.row_type.field(name) for name in dict.fromkeys(names)]
    has_defaults = any(name in schema.table_options.default_values for name in names)
    if has_defaults or not all(_is_readable(column.type) for column in columns):
        return []
    if rows.where is not None:
        bound = bind(rows.where, to_arrow_schema(schema.row_type))
        if spark_condition(bound, {name: name for name in names}) is None:
            return []
    return columns


def _is_readable(data_type: DataType) -> bool:
    """Whether Spark's Parquet reader has the type, and gives the same values."""
    if holds_variant(data_type):
        return False
    atoms = list(atomic_types(data_type))
    if any(
        atom.root is TypeRoot.TIME or (atom.root in TIMESTAMP_ROOTS and atom.precision > _MICRO_DIGITS)
        for atom in atoms
    ):
        return False
    # It is not known whether there is NaN inside.
    return isinstance(data_type, AtomicType) or not any(atom.root in FLOAT_ROOTS for atom in atoms)


class _Origin(Enum):
    """The source of values of partition columns, other than literals of a partition."""

    FILES = auto()
    DIRECTORIES = auto()


class _Judge:
    """Decides which files of a table Spark reads, and where it gets their partition columns from."""

    def __init__(self, table: TableHandle, columns: Sequence[DataField], schemes: Collection[str]) -> None:
        self._table = table
        self._columns = columns
        self._schemes = schemes
        self._stored: dict[int, tuple[str | None, ...] | None] = {}
        self._directories: dict[tuple[bytes, int], str] = {}
        self._origins: dict[bytes, _Origin | bytes] = {}
        self._root = _address(table.paths.root)
        names, schema = [column.name for column in columns], table.schema
        self._floats = [column.name for column in columns if is_float(column)]
        self._partition = [name for name in names if name in schema.partition_keys]
        # Java 0.9 may write null into the key columns next to rows of sequence groups. Its `_KEY_` columns are right.
        may_lose_keys = schema.table_options.merge_engine == "partial-update"
        self._keys = [name for name in names if may_lose_keys and name in schema.trimmed_primary_keys]

    def section(self, split: Split, section: Section) -> list[tuple[str, tuple[str | None, ...]]] | None:
        """Paths of the section's files and their columns; None if Spark cannot read all of them directly."""
        if len(section) > 1:
            return None
        found = []
        for file in section[0]:
            path = self._path(split, file)
            origin = None if path is None else self.origin(split.partition, path)
            stored = self._columns_in(file, split, in_files=origin is _Origin.FILES)
            if stored is None or path is None:
                return None
            found.append((path, stored))
        return found

    def _columns_in(self, file: DataFile, split: Split, *, in_files: bool) -> tuple[str | None, ...] | None:
        """The file's names of the columns, partition columns too if their values are `in_files`; None if not so."""
        if file.format != "parquet" or self._may_have_retracts(file) or file.name in split.vectors:
            return None
        if file.schema_id not in self._stored:
            self._stored[file.schema_id] = self._names_in(self._table.schema_of(file.schema_id))
        return self._stored[file.schema_id] if self._has_what_it_should(file, in_files=in_files) else None

    def _may_have_retracts(self, file: DataFile) -> bool:
        return bool(self._table.schema.primary_keys) and may_have_deletes(file, self._table.options)

    def _has_what_it_should(self, file: DataFile, *, in_files: bool) -> bool:
        """Whether the file is known to have no NaN, and the values of keys and, `in_files`, of partition columns."""
        partition = self._partition if in_files else ()
        if not (self._floats or partition or self._keys):
            return True
        ranges = value_ranges(self._table, file)
        floats, keys = ([ranges.get(name, UNKNOWN_STATS) for name in names] for names in (self._floats, self._keys))
        return (
            all(_is_number(known.max) or known.null_count == file.row_count for known in floats)
            and all(known.null_count == 0 for known in keys)
            and all(name in ranges for name in partition)
        )

    def origin(self, partition: bytes, path: str) -> _Origin | bytes:
        """The source of values of partition columns; a partition if they are literals of it."""
        if not self._partition:
            return _Origin.FILES
        if partition not in self._origins:
            self._origins[partition] = self._origin(partition)
        origin = self._origins[partition]
        lies_elsewhere = origin is _Origin.DIRECTORIES and not path.startswith(f"{self._root}/")
        return _Origin.FILES if lies_elsewhere else origin

    def _origin(self, partition: bytes) -> _Origin | bytes:
        if is_readable_from_path(self._table, partition, self._partition):
            return _Origin.DIRECTORIES
        of_literals = sum(isinstance(origin, bytes) for origin in self._origins.values())
        has_all = len(literals(self._table, partition, self._partition)) == len(self._partition)
        return partition if has_all and of_literals < LITERALS_MAX else _Origin.FILES

    def known(self, origin: _Origin | bytes) -> tuple[str | None, Mapping[str, str]]:
        """The root of directories whose names show values, and literals."""
        if isinstance(origin, bytes):
            return None, literals(self._table, origin, self._partition)
        return (self._root if origin is _Origin.DIRECTORIES else None), {}

    def _names_in(self, schema: TableSchema) -> tuple[str | None, ...] | None:
        """The names of the columns in files of a schema; None if a column is missing there or was changed."""
        system = [SEQUENCE_NUMBER, VALUE_KIND, *(KEY_PREFIX + name for name in schema.trimmed_primary_keys)]
        if _has_twins(schema.row_type, system if schema.primary_keys else ()):
            return None
        names: list[str | None] = []
        for source in column_sources(schema, self._table.schema, [column.name for column in self._columns]):
            if source.stored is None:
                if not isinstance(source.field.type, AtomicType):
                    return None
                names.append(None)
            elif has_same_types(schema, self._table.schema, [source.field.name]):
                names.append(source.stored.name)
            else:
                return None
        return tuple(names) if any(names) else None

    def _path(self, split: Split, file: DataFile) -> str | None:
        bucket = split.partition, split.bucket
        if bucket not in self._directories:
            self._directories[bucket] = bucket_path(self._table, *bucket)
        path = f"{data_file_at(self._table, self._directories[bucket], file)[1]}/{file.name}"
        # Spark treats some characters as wildcards, and files with some names as hidden.
        if _GLOB_SIGNS & set(path) or file.name.startswith(("_", ".")):
            return None
        address = _address(path)
        return address if address.partition(":")[0] in self._schemes else None


def _address(path: str) -> str:
    """A path in Spark's form, with a scheme."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _is_number(bound: float | None) -> bool:
    return bound is not None and not math.isnan(bound)


def _has_twins(row_type: RowType, others: Sequence[str] = ()) -> bool:
    """Whether names of columns, or of fields inside of one, differ by case only."""
    names = [*row_type.names, *others]
    return len({name.lower() for name in names}) < len(names) or any(
        _has_twins_inside(field.type) for field in row_type
    )


def _has_twins_inside(data_type: DataType) -> bool:
    match data_type:
        case RowType():
            return _has_twins(data_type)
        case ArrayType(element) | MultisetType(element):
            return _has_twins_inside(element)
        case MapType(key, value):
            return _has_twins_inside(key) or _has_twins_inside(value)
        case _:
            return False
