"""VARIANT columns of one Parquet file that is written: which columns their parts get, and the rows in these columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from paimon_engine.arrow_variant import is_arrow_variant
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import copied, leaf_arrays
from paimon_engine.format.parquet_encoding import repeating_columns, stored_paths
from paimon_engine.format.variant_columns import InferenceLimits
from paimon_engine.format.variant_inference import inferred_types
from paimon_engine.format.variant_nodes import BadVariantError
from paimon_engine.format.variant_shredding import shredded, shredded_type, with_field_id

Path = tuple[str, ...]
_SAMPLE_ROWS: Final = 4_096


def _paths(schema: pa.Schema, variants: Mapping[str, pa.DataType] | InferenceLimits) -> Iterator[Path]:
    """Where VARIANT values are that get columns: as in Java, in rows only where the choice is inferred."""
    if isinstance(variants, InferenceLimits):
        for field in schema:
            yield from _variants_in(field)
        return
    yield from ((field.name,) for field in schema if field.name in variants and is_arrow_variant(field.type))


def _variants_in(field: pa.Field) -> Iterator[Path]:
    if is_arrow_variant(field.type):
        yield (field.name,)
    elif pa.types.is_struct(field.type):
        for inner in field.type:
            yield from ((field.name, *path) for path in _variants_in(inner))


class ShreddedColumns:
    """The VARIANT columns of a file that has these columns, once `choose` has seen its first rows."""

    def __init__(self, paths: Sequence[Path], variants: Mapping[str, pa.DataType] | InferenceLimits) -> None:
        self._paths = paths
        self._variants = variants
        self._types: dict[Path, pa.DataType] = {}

    @classmethod
    def of(cls, schema: pa.Schema, variants: Mapping[str, pa.DataType] | InferenceLimits) -> ShreddedColumns | None:
        """None if the schema has no values that are taken apart."""
        paths = [*_paths(schema, variants)]
        return cls(paths, variants) if paths else None

    def choose(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Chooses the columns by the first rows. Raises: InvalidArgumentError for a value that is no VARIANT."""
        if not isinstance(self._variants, InferenceLimits):
            self._types = {path: self._variants[path[0]] for path in self._paths}
            return
        first = _first_rows(batches, self._variants.rows)
        with _naming(self._paths):
            types = inferred_types([_part(first, path) for path in self._paths], self._variants)
        found = zip(self._paths, types, strict=True)
        self._types = {path: kind for path, kind in found if not is_arrow_variant(kind)}

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema with the types of the file."""
        return pa.schema([field.with_type(self._type(field.type, (field.name,))) for field in schema])

    def _type(self, kind: pa.DataType, path: Path) -> pa.DataType:
        if path in self._types:
            return shredded_type(self._types[path])
        if is_arrow_variant(kind) or not pa.types.is_struct(kind):
            return kind
        return pa.struct([self._inner(field, (*path, field.name), number) for number, field in enumerate(kind)])

    def _inner(self, field: pa.Field, path: Path, number: int) -> pa.Field:
        changed = field.with_type(self._type(field.type, path))
        return with_field_id(changed, number) if path in self._types and not field.metadata else changed

    def table(self, rows: pa.Table) -> pa.Table:
        """The rows in the columns of the file. Raises: InvalidArgumentError for a value that is no VARIANT."""
        for name in self._columns:
            index = rows.schema.get_field_index(name)
            chunks = [part for chunk in rows.column(index).chunks for part in self._parts(chunk, (name,))]
            kind = self._type(rows.schema.field(index).type, (name,))
            rows = rows.set_column(index, rows.schema.field(index).with_type(kind), pa.chunked_array(chunks, kind))
        return rows

    @property
    def _columns(self) -> list[str]:
        """Names of the columns that are VARIANT and taken apart, or have such parts."""
        return [*dict.fromkeys(path[0] for path in self._types)]

    def _parts(self, array: pa.Array, path: Path) -> list[pa.Array]:
        """The values in the columns of the file, one after the other in several arrays."""
        if path in self._types:
            with _naming([path]):
                found: list[pa.Array] = shredded(array, self._types[path]).chunks
            return found
        kind = self._type(array.type, path)
        if kind == array.type:
            return [array]
        whole = copied(array)
        fields = zip(whole.type, whole.flatten(), strict=True)
        parts = [pa.concat_arrays(self._parts(part, (*path, field.name))) for field, part in fields]
        mask = whole.is_null() if whole.null_count else None
        return [pa.StructArray.from_arrays(parts, fields=[*kind], mask=mask)]

    def repeating(self, batch: pa.RecordBatch, codec: str) -> list[str]:
        """Paths of the columns of parts whose values repeat among the first rows, so that a dictionary pays."""
        sample = self.table(pa.Table.from_batches([batch.slice(0, _SAMPLE_ROWS)]))
        found = []
        for name in self._columns:
            column = sample[name].combine_chunks()
            paths = stored_paths(pa.schema([sample.schema.field(name)]))
            for path, leaf in zip(paths, leaf_arrays(column), strict=True):
                found += repeating_columns(pa.RecordBatch.from_arrays([leaf], names=[path]), codec)
        return found


def _first_rows(batches: Sequence[pa.RecordBatch], count: int) -> pa.Table:
    found, left = [], count
    for batch in batches:
        found.append(batch.slice(0, left))
        left -= found[-1].num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(found)


def _part(rows: pa.Table, path: Path) -> pa.Array:
    array = copied(rows[path[0]].combine_chunks())
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


@contextmanager
def _naming(paths: Sequence[Path]) -> Iterator[None]:
    try:
        yield
    except BadVariantError as error:
        names = ", ".join(repr(".".join(path)) for path in paths)
        raise InvalidArgumentError(
            f"column {names} of type VARIANT: {error}; write values as Spark's `parse_json` makes them, or take the "
            "options 'variant.shreddingSchema' and 'variant.inferShreddingSchema' from the table, to store any bytes"
        ) from error
