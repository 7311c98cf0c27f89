"""What an overwrite replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError, shown
from paimon_engine.meta.paths import partition_text
from paimon_engine.meta.schema import BucketMode
from paimon_engine.table.commit.abort import delete_uncommitted
from paimon_engine.table.commit.commit import OverwriteScope
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.partitions import live_partitions, resolve_partition_spec
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write.chain_overwrites import check_overwrite


def overwrite_spec(table: TableHandle, overwrite: Mapping[str, Any]) -> dict[str, Any]:
    """The partition values to be replaced, as the format stores them; the name of the default one means null.

    Raises: InvalidArgumentError.
    """
    schema = table.schema
    if not isinstance(overwrite, Mapping) or not all(isinstance(column, str) for column in overwrite):
        raise InvalidArgumentError(
            f"overwrite={shown(overwrite)}: give {{column: value}}, or {{}} for all that rows are in"
        )
    unknown = [column for column in overwrite if column not in schema.partition_keys]
    if unknown:
        keys = ", ".join(schema.partition_keys) or "none"
        raise InvalidArgumentError(f"cannot overwrite by {', '.join(unknown)}: the partition columns are {keys}")
    if schema.bucket_mode is BucketMode.CROSS_PARTITION:
        _check_whole_table(table, overwrite)
    if not overwrite:
        return {}
    named = table.options.partition_default_name in overwrite.values()
    return resolve_partition_spec(table, live_partitions(table, latest_snapshot(table)) if named else (), overwrite)


def _check_whole_table(table: TableHandle, spec: Mapping[str, Any]) -> None:
    """Raises UnsupportedError unless an overwrite replaces all partitions."""
    if spec or table.options.dynamic_partition_overwrite:
        raise UnsupportedError(
            f"{table.paths.root}: the primary key does not contain all partition columns, so its rows move between "
            "partitions; overwriting some of the partitions is not supported yet. Replace all rows: overwrite={} with "
            "'dynamic-partition-overwrite' = 'false'"
        )


def overwrite_scope(table: TableHandle, spec: Mapping[str, Any], messages: Sequence[CommitMessage]) -> OverwriteScope:
    """What the messages of an overwrite replace.

    Raises: InvalidArgumentError for rows outside of the spec, or if a chain table's other branch forbids it; the
    messages' files are deleted then.
    """
    if table.schema.partition_keys and not spec and table.options.dynamic_partition_overwrite:
        scope = OverwriteScope(partitions=frozenset(message.partition for message in messages))
    else:
        scope = OverwriteScope(spec=dict(spec))
    try:
        if not all(scope.covers(table, message.partition) for message in messages):
            raise InvalidArgumentError(f"some rows are outside the partition to be overwritten, {_texts(table, spec)}")
        check_overwrite(table, scope, messages)
    except PaimonError:
        delete_uncommitted(table, messages)
        raise
    return scope


def _texts(table: TableHandle, spec: Mapping[str, Any]) -> dict[str, str | None]:
    """The values as people write them, a date not as a number of days."""
    kinds = table.schema.partition_type
    return {
        name: None if value is None else partition_text(kinds.field(name).type, value, legacy_name=False)
        for name, value in spec.items()
    }
