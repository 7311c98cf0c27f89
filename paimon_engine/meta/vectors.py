"""Rules for columns of VECTOR, which data files store as arrays.

Source: `SchemaValidation`, `VectorType` of the Java library (2.0).
"""

from __future__ import annotations

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import VectorType, missing_column, type_to_json


def check_vectors(schema: TableSchema) -> None:
    """Checks that files can store columns of VECTOR, and that `vector-field` names such columns.

    Raises: UnsupportedError; InvalidArgumentError.
    """
    formats = {*schema.table_options.file_formats, schema.table_options.changelog_file_format}
    for field in schema.row_type:
        if isinstance(field.type, VectorType) and "orc" in formats:
            raise UnsupportedError(
                f"column {field.name!r}: VECTOR is not stored in ORC files, as in Java; use 'file.format' = 'parquet'"
            )
    # As in Java, a space belongs to the name.
    for name in filter(None, schema.options.get("vector-field", "").split(",")):
        if name not in schema.row_type:
            raise missing_column(name, schema.row_type.names, "'vector-field'")
        kind = schema.row_type.field(name).type
        if not isinstance(kind, VectorType):
            raise InvalidArgumentError(
                f"'vector-field': column {name!r} is {type_to_json(kind)}; give it the type VECTOR<FLOAT, 3>, with "
                "its own element and length, or remove it from the option"
            )
