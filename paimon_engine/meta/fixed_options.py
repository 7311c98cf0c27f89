"""Options that define what stored files mean: they belong to the table, and cannot be set by the caller that opens it.

Source: the options marked `@Immutable` in `CoreOptions`, and `checkImmutability`, of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options.older_names import newest_name, spelled

FIXED_OPTIONS: Final = frozenset(
    {
        "type",
        "bucket-key",
        "bucket-function.type",
        "path",
        "merge-engine",
        "primary-key",
        "primary-key.nullable",
        "partition",
        "rowkind.field",
        "dynamic-bucket.initial-buckets",
        "sequence.field",
        "sequence.snapshot-ordering",
        "ignore-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "aggregation.remove-record-on-delete",
        "force-lookup",
        "pk-clustering-override",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "data-file.path-directory",
        "index-file-in-data-file-dir",
        "manifest.format",
    }
)
"""Options that must not change once there are files."""

_OF_WRITERS: Final = frozenset({"dynamic-bucket.initial-buckets"})
"""Of these, what each writer may choose for itself."""


def with_dynamic_options(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    """The schema with options laid over the stored ones, for a caller who opens the table with them.

    Raises: InvalidArgumentError for an option whose change would make files be misread.
    """
    in_table = schema.table_options.raw
    for given, value in options.items():
        key = newest_name(given)
        stored = in_table.get(key)
        if stored != str(value) and key in (FIXED_OPTIONS | {"bucket"}) - _OF_WRITERS:
            has = "is not set" if stored is None else f"is '{stored}'"
            raise InvalidArgumentError(
                f"{spelled(given)} = '{value}' cannot be chosen when the table is opened: it {has} in the table, and "
                "says what the stored files mean; leave it out, or alter the table"
            )
    return schema.with_options(options)
