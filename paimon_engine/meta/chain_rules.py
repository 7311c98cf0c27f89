"""What a chain table's keys and options must be.

Source: `SchemaValidation.validateChainTable` of the Java library.
"""

from __future__ import annotations

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options.chain import CHAIN_KEYS, CHAIN_TABLE

_FOR_TIMES = ("partition.timestamp-pattern", "partition.timestamp-formatter")
_NEEDS = f"'{CHAIN_TABLE}' = 'true' needs"


def check_chain_table(schema: TableSchema) -> None:
    """Raises InvalidArgumentError naming what a chain table lacks, or must not have."""
    options = schema.table_options
    if not options.is_chain_table:
        return
    if not schema.primary_keys or not schema.partition_keys:
        raise InvalidArgumentError(f"{_NEEDS} a primary key and partition keys")
    if options.bucket < 1:
        raise InvalidArgumentError(f"{_NEEDS} a fixed number of buckets; set 'bucket' to a positive number")
    if not options.sequence_fields:
        raise InvalidArgumentError(f"{_NEEDS} a 'sequence.field', by which versions of a key are put in order")
    if options.changelog_producer not in ("none", "input"):
        raise InvalidArgumentError(
            f"{_NEEDS} 'changelog-producer' = 'none' or 'input', not '{options.changelog_producer}'"
        )
    if options.deletion_vectors_enabled and options.merge_engine != "deduplicate":
        raise InvalidArgumentError(f"{_NEEDS} 'merge-engine' = 'deduplicate' where deletion vectors are enabled")
    missing = [key for key in _FOR_TIMES if key not in options.raw]
    if missing:
        raise InvalidArgumentError(f"{_NEEDS} {' and '.join(map(repr, missing))}, which give partitions their order")
    strategy = options.raw.get("partition.expiration-strategy", "values-time").strip().lower()
    if "partition.expiration-time" in options.raw and strategy != "values-time":
        raise InvalidArgumentError(f"{_NEEDS} 'partition.expiration-strategy' = 'values-time', not '{strategy}'")
    keys = options.chain_partition_keys
    if CHAIN_KEYS in options.raw and (not keys or schema.partition_keys[-len(keys) :] != keys):
        raise InvalidArgumentError(
            f"'{CHAIN_KEYS}' = '{','.join(keys)}': these are not the last of the partition keys "
            f"{', '.join(schema.partition_keys)}; set the option so"
        )
