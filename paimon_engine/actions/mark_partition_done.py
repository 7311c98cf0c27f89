"""Mark partitions as done: tell those who wait that no more rows will come.

The option `partition.mark-done-action` says how. `success-file`, the default, writes `_SUCCESS` into the partition's
directory: JSON with the times of the first and of the last mark. Others are refused by name.

Source: `SuccessFileMarkDoneAction` of the Java library.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, NotFoundError, UnsupportedError, damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, parse_object, reason, whole
from paimon_engine.meta.paths import partition_path
from paimon_engine.options.texts import split_list
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.partitions import partition_spec

_OPTION: Final = "partition.mark-done-action"
_SUCCESS_FILE: Final = "success-file"


@dataclass(frozen=True, slots=True)
class MarkPartitionDone:
    """Mark these partitions: a value for every partition column."""

    partitions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class MarkPartitionDoneResult:
    """The files that say so; `status` is `marked`."""

    status: str
    files: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def mark_partition_done(table: TableHandle, spec: MarkPartitionDone) -> MarkPartitionDoneResult:
    """Marks partitions as done; safe to repeat. Partitions without rows can be marked too.

    Raises: InvalidArgumentError if a partition is not named wholly; UnsupportedError for other ways than the success
    file; CorruptTableError if a success file is damaged; StorageError.
    """
    begun = time.monotonic()
    ways = split_list(table.options.raw.get(_OPTION, _SUCCESS_FILE))
    missing = [way for way in ways if way != _SUCCESS_FILE]
    if missing:
        raise UnsupportedError(f"'{_OPTION}' = '{', '.join(missing)}' is not supported; use '{_SUCCESS_FILE}'")
    if isinstance(spec.partitions, str | Mapping) or not spec.partitions:
        raise InvalidArgumentError("name the partitions to mark: a list of {column: value}")
    paths = [_success_file(table, given) for given in spec.partitions]
    for path in paths:
        _mark(table, path)
    return MarkPartitionDoneResult("marked", tuple(paths), time.monotonic() - begun)


def _success_file(table: TableHandle, given: Mapping[str, Any]) -> str:
    values = partition_spec(table, given)
    left_out = [name for name in table.schema.partition_keys if name not in values]
    if left_out:
        raise InvalidArgumentError(f"partition {dict(given)} needs a value for {', '.join(left_out)}")
    columns, options = table.schema.partition_type, table.options
    relative = partition_path(
        columns,
        [values[name] for name in columns.names],
        default_name=options.partition_default_name,
        legacy_name=options.partition_legacy_name,
    )
    return f"{table.paths.root}/{relative}/_SUCCESS"


def _mark(table: TableHandle, path: str) -> None:
    storage, now_ms = table.env.storage, table.env.clock()
    created_ms = now_ms
    try:
        created_ms = whole(parse_object(storage.read(path), path), "creationTime")
    except NotFoundError:
        pass
    except WRONG as error:
        raise damaged(path, f"no valid success file: {reason(error)}") from error
    storage.overwrite(path, pretty_json({"creationTime": created_ms, "modificationTime": now_ms}).encode())
