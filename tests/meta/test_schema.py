"""What a table must not be, said when it is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, PaimonError, UnsupportedError

COLUMNS = {"k": pa.int64(), "p": pa.string(), "b": pa.binary(), "l": pa.list_(pa.int32()), "v": pa.string()}
REFUSED: list[tuple[dict[str, Any], type[PaimonError], str]] = [
    ({"schema": pa.schema([])}, InvalidArgumentError, "at least one column"),
    ({"schema": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, InvalidArgumentError, "a occurs more than once"),
    ({"schema": pa.schema([("_VALUE_KIND", pa.int8())])}, InvalidArgumentError, "'_VALUE_KIND' is reserved"),
    ({"schema": pa.schema([("_KEY_a", pa.int8())])}, InvalidArgumentError, "'_KEY_a' is reserved"),
    ({"primary_keys": ["k", "k"]}, InvalidArgumentError, "named twice"),
    ({"primary_keys": ["nothing"]}, InvalidArgumentError, "nothing"),
    ({"primary_keys": ["l"]}, InvalidArgumentError, "'l' must not have a nested type"),
    ({"partition_keys": ["l"]}, InvalidArgumentError, "'l' must not have a nested type"),
    ({"partition_keys": ["b"]}, UnsupportedError, "'b' must not be binary"),
    ({"primary_keys": ["p"], "partition_keys": ["p"]}, InvalidArgumentError, "no column besides the partition keys"),
    (
        {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "1"}},
        InvalidArgumentError,
        "must contain",
    ),
    ({"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "-2"}}, InvalidArgumentError, "or -2"),
    ({"options": {"bucket": "-2"}}, InvalidArgumentError, "'-2' is for tables with a primary key"),
    ({"options": {"bucket": "-3"}}, InvalidArgumentError, "'bucket' = '-3'"),
    ({"options": {"bucket-key": "k"}}, InvalidArgumentError, "requires a fixed number of buckets"),
    ({"primary_keys": ["k"], "options": {"bucket-key": "k"}}, InvalidArgumentError, "'bucket-key' requires"),
    (
        {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"sequence.field": "v"}},
        InvalidArgumentError,
        "'sequence.field' needs a primary key that contains all partition keys",
    ),
    ({"primary_keys": ["k"], "options": {"dynamic-bucket.max-buckets": "0"}}, InvalidArgumentError, "max-buckets"),
    ({"primary_keys": ["k"], "options": {"dynamic-bucket.max-buckets": "-2"}}, InvalidArgumentError, "'-2'; use"),
    (
        {"primary_keys": ["k"], "options": {"dynamic-bucket.target-row-num": "0"}},
        InvalidArgumentError,
        "target-row-num",
    ),
    (
        {"primary_keys": ["k"], "options": {"dynamic-bucket.initial-buckets": "0"}},
        InvalidArgumentError,
        "initial-buckets",
    ),
    (
        {"primary_keys": ["k"], "options": {"bucket": "-2", "postpone.default-bucket-num": "0"}},
        InvalidArgumentError,
        "postpone.default-bucket-num",
    ),
    ({"options": {"bucket": "0"}}, InvalidArgumentError, "'bucket' = '0'"),
    ({"options": {"bucket": "1"}}, InvalidArgumentError, "needs 'bucket-key'"),
    ({"options": {"bucket": "1", "bucket-key": "nothing"}}, InvalidArgumentError, "nothing"),
    ({"primary_keys": ["k"], "options": {"bucket": "1", "bucket-key": "v"}}, InvalidArgumentError, "'bucket-key'"),
    ({"primary_keys": ["k"], "options": {"bucket": "1", "sequence.field": "x"}}, InvalidArgumentError, "x"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_refused_tables(tmp_path: Path, arguments: dict[str, Any], kind: type[PaimonError], message: str):
    catalog = Catalog(str(tmp_path))

    with pytest.raises(kind, match=message):
        catalog.create_table("db.t", **{"schema": pa.schema(COLUMNS), **arguments})

    with pytest.raises(NotFoundError):
        catalog.table("db.t")
