"""Buckets of the tables in the corpus: each row gets the bucket into which Java wrote it."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from paimon_engine.format.binary_row import to_arrow_array
from paimon_engine.format.bucket_hash import bucket_of, hash_rows
from paimon_engine.types import DataType, parse_type
from tests.support.reference import reference_folder

FIXED_BUCKET_CASES = [
    "append_bucketed",
    "append_bucketed_compact_avro",
    "bucket_key_append_orc",
    "bucket_key_string",
    "key_bigint_date_bool",
    "key_decimals",
    "key_int",
    "key_nanos_orc",
    "key_string",
    "key_timestamps",
]


@pytest.mark.parametrize("name", FIXED_BUCKET_CASES)
def test_rows_hash_to_the_bucket_that_java_chose(name: str) -> None:
    expected = json.loads((reference_folder("corpus") / name / "expected.json").read_text())
    read = next(read for read in expected["reads"] if read["at"].get("with_bucket"))
    rows = _rows(name, read)
    types = {column["name"]: parse_type(column["type"]) for column in read["columns"]}
    keys = expected["options"].get("bucket-key", ",".join(expected["primary_keys"])).split(",")

    columns = [
        to_arrow_array([_internal(row[1 + list(types).index(key)], types[key]) for row in rows], types[key])
        for key in keys
    ]
    found = bucket_of(hash_rows(columns, [types[key] for key in keys]), int(expected["options"]["bucket"]))

    assert len(rows) > 0
    assert [row[0] for row in rows] == found.tolist()


def _rows(name: str, read: dict[str, Any]) -> list[Any]:
    if "rows" in read:
        return list(read["rows"])
    with gzip.open(reference_folder("corpus") / name / read["rows_file"], "rt") as lines:
        return [json.loads(line) for line in lines]


def _internal(value: Any, data_type: DataType) -> Any:
    """Internal value of the corpus' text form."""
    root = getattr(data_type, "root", "")
    if value is None:
        return None
    if root == "DECIMAL":
        return Decimal(value)
    if root == "DATE":
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    if root == "TIMESTAMP":
        whole, nanos = value.split(".")
        since = datetime.fromisoformat(whole) - datetime(1970, 1, 1)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + int(nanos)
    return value
