"""Metadata records, as other clients write them."""

from __future__ import annotations

import io

import fastavro
import pytest

from paimon_engine import CorruptTableError
from paimon_engine.format.avro import read_records, record_fields

RECORD = {"type": "record", "name": "item", "fields": [{"name": "_FILE_NAME", "type": "string"}]}


def container(schema: object) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [{"_FILE_NAME": "a"}, {"_FILE_NAME": "b"}])
    return buffer.getvalue()


@pytest.mark.parametrize("schema", [RECORD, ["null", RECORD], [RECORD]])
def test_records_may_be_written_as_a_union_with_null_as_the_rust_client_does(schema: object):
    data = container(schema)

    assert read_records(data, "manifest") == [{"_FILE_NAME": "a"}, {"_FILE_NAME": "b"}]
    assert record_fields(data, "manifest") == RECORD["fields"]


def test_a_union_of_several_records_is_damage():
    data = container([RECORD, {**RECORD, "name": "other", "fields": [{"name": "n", "type": "int"}]}])

    with pytest.raises(CorruptTableError, match="manifest"):
        record_fields(data, "manifest")


def test_fields_of_what_is_json_but_no_schema_are_damage():
    """A flipped bit in a key of the schema, which is no part of the records."""
    sink = io.BytesIO()
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, [{"a": 1, "b": 2}])
    data = sink.getvalue()
    assert [field["name"] for field in record_fields(data, "m")] == ["a", "b"]
    before, after = data.rsplit(b'"name"', 1)

    with pytest.raises(CorruptTableError, match="m: cannot be read"):
        record_fields(before + b'"nbme"' + after, "m")
