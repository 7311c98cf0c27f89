"""Keys in manifests of files from before a column of the primary key changed its type, as keys of today.

Integers that became wider keep their order, so the rows of such files still have today's order; for
other changes, only longer texts and bytes leave the order unchanged. Java 0.9 allows every change of type, and reads
the old keys as if they were new ones, which is correct as long as no number is negative.

Largest keys that may be cut to microseconds (`meta.cut_bounds`) become such as no key of the file is above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.meta.cut_bounds import may_be_cut, upper_key
from paimon_engine.meta.evolution import has_same_types, widened_integers
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import RowType


def with_keys_of_today(
    table: TableHandle, entries: Iterable[ManifestEntry], *, lenient: bool = False
) -> list[ManifestEntry]:
    """The entries with the keys of their files in the types of today, and with largest keys that nothing is above.

    Doing it again changes nothing. A `lenient` call, for comparing a commit with what exists, leaves files
    in another order as they are, and largest keys too.

    Raises: UnsupportedError if files are in another order than that of today.
    """
    entries = list(entries)
    if table.options.clustering_overrides_keys:
        # Above level 0 they are no keys.
        new = iter(_of_today(table, (entry for entry in entries if not entry.file.level), lenient=lenient))
        return [entry if entry.file.level else next(new) for entry in entries]
    return _of_today(table, entries, lenient=lenient)


def keys_are_of_today(table: TableHandle, schema_ids: Iterable[int]) -> bool:
    """Whether `with_keys_of_today` changes nothing of files with these schemas, whatever their keys are."""
    keys = table.schema.trimmed_primary_keys
    if table.options.clustering_overrides_keys or any(may_be_cut(field.type) for field in table.schema.key_type):
        return False
    return not keys or all(has_same_types(table.schema_of(number), table.schema, keys) for number in schema_ids)


def _of_today(table: TableHandle, entries: Iterable[ManifestEntry], *, lenient: bool) -> list[ManifestEntry]:
    """As `with_keys_of_today`, of entries with keys."""
    entries, keys = list(entries), table.schema.trimmed_primary_keys
    old: dict[int, RowType] = {}
    for schema_id in {entry.file.schema_id for entry in entries} if keys else ():
        schema = table.schema_of(schema_id)
        if has_same_types(schema, table.schema, keys):
            continue
        if widened_integers(schema, table.schema, keys):
            old[schema_id] = schema.key_type
        elif not lenient:
            raise UnsupportedError(
                f"{table.paths.root}: the type of a primary key column, one of {', '.join(keys)}, changed after schema "
                f"{schema_id}, but files are still in the order of the old type; write the rows into a new table"
            )
    found = entries
    if old:
        found = [
            _converted(table, entry, old[entry.file.schema_id]) if entry.file.schema_id in old else entry
            for entry in entries
        ]
    types = [field.type for field in table.schema.key_type] if keys else []
    if lenient or not any(map(may_be_cut, types)):
        return found
    return [replace(entry, file=replace(entry.file, max_key=upper_key(types, entry.file.max_key))) for entry in found]


def _converted(table: TableHandle, entry: ManifestEntry, old: RowType) -> ManifestEntry:
    now = table.schema.key_type

    def today(key: bytes) -> bytes:
        values: Sequence[object] = decode_row([field.type for field in old], key)
        return encode_row([field.type for field in now], values, reserve_null=True)

    return replace(
        entry, file=replace(entry.file, min_key=today(entry.file.min_key), max_key=today(entry.file.max_key))
    )
