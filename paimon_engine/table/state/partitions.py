"""The partitions of a table: which there are, what people call them, and which ones they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import decode_row, internal_values, same_value
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.paths import partition_path, partition_text
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.types import STRING_ROOTS, AtomicType, to_arrow

MARK_DONE_ACTION: Final = "partition.mark-done-action"
SUCCESS_FILE: Final = "success-file"


@dataclass(frozen=True)
class Partition:
    """A partition with live files; `values` are internal, `newest_ms` is a local wall clock as if it were UTC."""

    key: bytes
    values: tuple[Any, ...]
    files: int
    rows: int
    size_bytes: int
    newest_ms: int | None
    file_names: frozenset[str] = frozenset()


def partition_value(schema: TableSchema, column: str, value: Any) -> Any:
    """The internal value of a partition column, of what people write: a Python value, or its text.

    Raises: InvalidArgumentError.
    """
    data_type = schema.row_type.field(column).type
    try:
        return internal_values(pa.array([value]).cast(to_arrow(data_type)), data_type)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeEncodeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{str(value)[:100]!r} is not a value of partition column {column!r}: {error}"
        ) from error


def partition_spec(table: TableHandle, given: Mapping[str, Any]) -> dict[str, Any]:
    """Internal values by column; the name of the default partition means null.

    Raises: InvalidArgumentError if a column is not a partition column, or none is named.
    """
    schema = table.schema
    unknown = [column for column in given if column not in schema.partition_keys]
    if unknown or not given:
        keys = ", ".join(schema.partition_keys) or "none"
        what = f"{', '.join(map(repr, unknown))[:100]} of {str(dict(given))[:200]}" if unknown else "nothing"
        raise InvalidArgumentError(f"a partition is named by its columns, not by {what}; they are: {keys}")
    default = table.options.partition_default_name
    return {
        column: None if value is None or value == default else partition_value(schema, column, value)
        for column, value in given.items()
    }


def whole_partition(table: TableHandle, given: Mapping[str, Any]) -> list[Any]:
    """Internal values of a whole partition, in the order of its columns.

    Raises: InvalidArgumentError if a column is left out; as `partition_spec`.
    """
    values = partition_spec(table, given)
    left_out = [name for name in table.schema.partition_keys if name not in values]
    if left_out:
        raise InvalidArgumentError(f"partition {dict(given)} needs a value for {', '.join(left_out)}")
    return [values[name] for name in table.schema.partition_type.names]


def relative_path(table: TableHandle, values: Sequence[Any]) -> str:
    """Directory of a partition below the table's, of its internal values."""
    return partition_path(
        table.schema.partition_type,
        values,
        default_name=table.options.partition_default_name,
        legacy_name=table.options.partition_legacy_name,
    )


def resolve_partition_spec(table: TableHandle, live: Sequence[Partition], given: Mapping[str, Any]) -> dict[str, Any]:
    """As `partition_spec`, but the name of the default partition means that text where no live one has null.

    Rows may have the name as a text, and are in the directory of null then. To Java the name is null, whatever the
    rows hold, so that it cannot name such a partition at all.

    Raises: InvalidArgumentError if there is one of each, so that it is not known which is meant.
    """
    spec, default = partition_spec(table, given), table.options.partition_default_name
    for column in [name for name, value in given.items() if value == default and spec[name] is None]:
        as_text = {**spec, column: default}
        if not _is_text(table, column) or not matching(table, live, [as_text]):
            continue
        if matching(table, live, [spec]):
            raise InvalidArgumentError(
                f"{column!r} = {default!r} names two partitions, of null and of that text: drop {{{column!r}: None}} "
                "first, and name it again then"
            )
        spec = as_text
    return spec


def _is_text(table: TableHandle, column: str) -> bool:
    kind = table.schema.row_type.field(column).type
    return isinstance(kind, AtomicType) and kind.root in STRING_ROOTS


def live_partitions(table: TableHandle, snapshot: Snapshot | None) -> list[Partition]:
    """Partitions with live files, in the order of their manifests' entries."""
    types = [field.type for field in table.schema.partition_type]
    groups: dict[bytes, list[Any]] = {}
    for entry in live_entries(table, snapshot):
        groups.setdefault(entry.partition, []).append(entry.file)
    return [
        Partition(
            key,
            tuple(decode_row(types, key)),
            len(files),
            rows_in(files),
            sum(file.size_bytes for file in files),
            max((file.creation_time_ms for file in files if file.creation_time_ms is not None), default=None),
            frozenset(file.name for file in files),
        )
        for key, files in groups.items()
    ]


def matching(
    table: TableHandle, partitions: Sequence[Partition], specs: Sequence[Mapping[str, Any]]
) -> list[Partition]:
    """Those of the partitions whose values equal one of the specs."""
    names = table.schema.partition_type.names

    def fits(partition: Partition, spec: Mapping[str, Any]) -> bool:
        return all(same_value(partition.values[names.index(name)], value) for name, value in spec.items())

    return [partition for partition in partitions if any(fits(partition, spec) for spec in specs)]


def partition_texts(table: TableHandle, partition: Partition) -> dict[str, str | None]:
    """The values as people write them; None for null."""
    return _texts(table, partition.values)


def texts_of_key(table: TableHandle, key: bytes) -> dict[str, str | None]:
    """As `partition_texts`, of a partition as entries have it."""
    return _texts(table, decode_row([field.type for field in table.schema.partition_type], key))


def partition_names(table: TableHandle, key: bytes) -> dict[str, str]:
    """The values as the names of directories have them, of a partition as entries have it."""
    names, options = texts_of_key(table, key), table.options
    if options.partition_legacy_name:
        kinds = table.schema.partition_type
        values = decode_row([field.type for field in kinds], key)
        names = {
            field.name: None if value is None else partition_text(field.type, value, legacy_name=True)
            for field, value in zip(kinds, values, strict=True)
        }
    default = options.partition_default_name
    return {name: text if text is not None and text.strip() else default for name, text in names.items()}


def _texts(table: TableHandle, values: Sequence[Any]) -> dict[str, str | None]:
    return {
        field.name: None if value is None else partition_text(field.type, value, legacy_name=False)
        for field, value in zip(table.schema.partition_type, values, strict=True)
    }
