"""Records that expire: compactions leave them out, reads do not."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.merge.functions import check_merge_options
from paimon_engine.supported import check_writable
from paimon_engine.table.state.handle import load_table
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon
from tests.table.conftest import KIND, NOON_MS, MakeTable, Subject

NOON = NOON_MS // 1000
EXPIRING = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "t"}


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("kind", "unit", "times"),
    [
        (pa.int32(), None, [NOON - 3601, NOON - 3600, None]),
        (pa.int32(), "seconds-int", [NOON - 3601, NOON - 3600, None]),
        (pa.int64(), None, [NOON - 3601, NOON - 3600, None]),
        (pa.int64(), None, [NOON_MS - 3_600_001, NOON_MS - 3_600_000, None]),
        (pa.int64(), "millis-long", [-1, NOON_MS - 3_600_000, None]),
        (pa.int64(), "seconds-long", [0, NOON_MS, None]),
        (pa.timestamp("us"), None, [at(NOON - 3601), at(NOON - 3600), None]),
        (pa.timestamp("ms", "UTC"), "timestamp", [at(NOON - 3601), at(NOON - 3600), None]),
    ],
)
def test_a_compaction_leaves_out_records_that_are_too_old(
    make_table: MakeTable, kind: pa.DataType, unit: str | None, times: list[Any]
) -> None:
    options = EXPIRING if unit is None else {**EXPIRING, "record-level.time-field-type": unit}
    table = make_table({"k": pa.int32(), "t": kind}, primary_keys=["k"], options=options)
    table.write({"k": [1, 2, 3], "t": times}).write({"k": [2], "t": times[1:2]})

    assert [key for key, _ in table.rows()] == [1, 2, 3], "a read does not look at the time"
    assert [key for key, _ in table.compact().rows()] == [2, 3]


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_an_expired_record_takes_no_part_in_a_merge(make_table: MakeTable, producer: str) -> None:
    summing = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": producer}
    columns = {"k": pa.int32(), "t": pa.int32(), "v": pa.int64()}
    table = make_table(columns, primary_keys=["k"], options={**EXPIRING, **summing})
    table.write({"k": [1, 2], "t": [NOON - 4000, NOON], "v": [100, 1]}).write(
        {"k": [1, 2], "t": [NOON] * 2, "v": [5, 6]}
    )

    assert table.compact().rows() == [(1, NOON, 5), (2, NOON, 7)]


def test_an_expired_delete_is_left_out_too(make_table: MakeTable) -> None:
    table = make_table({"k": pa.int32(), "t": pa.int32()}, primary_keys=["k"], options=EXPIRING)
    table.write({"k": [1, 2], "t": [NOON, NOON]}).write({KIND: ["-D", "-D"], "k": [1, 2], "t": [NOON - 4000, NOON]})

    assert table.compact().rows() == [(1, NOON)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"record-level.time-field": "zz"}, InvalidArgumentError, "no column 'zz'"),
        ({"record-level.time-field": "s"}, InvalidArgumentError, "takes INT or BIGINT or TIMESTAMP"),
        ({"record-level.time-field-type": "millis-long"}, InvalidArgumentError, "'millis-long' takes BIGINT"),
        ({"record-level.expire-time": "soon"}, InvalidArgumentError, r"record-level\.expire-time"),
        ({"deletion-vectors.enabled": "true"}, UnsupportedError, "together with 'deletion-vectors.enabled'"),
    ],
)
def test_options_of_expiry_that_do_not_fit_are_refused(
    make_table: MakeTable, options: dict[str, str], error: type[Exception], message: str
) -> None:
    columns = {"k": pa.int32(), "t": pa.int32(), "s": pa.string()}
    table = make_table(columns, primary_keys=["k"], options={**EXPIRING, **options})

    with pytest.raises(error, match=message):
        check_merge_options(table.handle.schema)
        check_writable(table.handle.options)


def test_java_leaves_out_the_same_records(oracle: JavaPaimon, tmp_path: Path) -> None:
    path, now = str(tmp_path / "db.db" / "t"), int(time.time())
    fields = [["k", "INT NOT NULL"], ["t", "INT"], ["v", "INT"]]
    summing = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "write-only": "true"}
    options = {**EXPIRING, **summing, "record-level.expire-time": "10 h"}
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    oracle.call("write", table=path, rows=[[1, now, 1], [2, now - 50_000, 2], [3, now - 50_000, 3]])
    oracle.call("write", table=path, rows=[[1, now, 10], [2, now, 20], [4, now, 40]])
    assert_same_rows(Subject(load_table(path, EnvConfig(path))).read(), oracle.read(path))
    copy = str(tmp_path / "db.db" / "copy")
    shutil.copytree(path, copy)

    ours = Subject(load_table(copy, EnvConfig(copy))).compact()
    oracle.call("compact", table=path, full=True)

    assert [row[::2] for row in ours.rows()] == [(1, 11), (2, 20), (4, 40)]
    assert_same_rows(ours.read(), oracle.read(path))
