"""Settings of a session that decide what a SQL text, or a timestamp, means: none may change the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import AddColumn, Catalog
from paimon_engine.spark.executor import SparkExecutor
from tests.spark.reads import ARROW, NATIVE, assert_reads

pytestmark = pytest.mark.spark

Setting = Callable[[str, str], AbstractContextManager[None]]


@pytest.fixture
def catalog(session: Any, tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path), executor=SparkExecutor(session))


@pytest.fixture
def setting(session: Any) -> Setting:
    @contextmanager
    def set_for_a_while(name: str, value: str) -> Iterator[None]:
        before = session.conf.get(name, None)
        session.conf.set(name, value)
        try:
            yield
        finally:
            session.conf.unset(name) if before is None else session.conf.set(name, before)

    return set_for_a_while


def test_quoted_names_that_are_regular_expressions(catalog: Catalog, setting: Setting) -> None:
    odd = pa.schema([("p.q", pa.string()), ("a.b", pa.string()), ("axb", pa.string()), ("`", pa.int64())])
    rows = pa.table([["x", "y"], ["dot", None], ["letter", "other"], [1, 2]], schema=odd)
    plain = catalog.create_table("db.plain", schema=odd)
    parts = catalog.create_table("db.parts", schema=odd, partition_keys=["p.q"])
    orc = catalog.create_table("db.orc", schema=odd, partition_keys=["p.q"], options={"file.format": "orc"})
    for table in (plain, parts, orc):
        table.write(rows)

    with setting("spark.sql.parser.quotedRegexColumnNames", "true"):
        for table, way in ((plain, NATIVE), (parts, NATIVE), (orc, ARROW)):
            assert_reads(table, way)
            assert_reads(table, way, columns=["`", "a.b"], where="`a.b` = 'dot' OR `p.q` = 'y'")
        plain.write(plain.to_spark())
    assert plain.to_arrow().num_rows == 4


def test_what_timestamp_means_to_a_session(catalog: Catalog, setting: Setting) -> None:
    moment = datetime(2024, 7, 1, 2, 30, tzinfo=UTC)
    table = catalog.create_table("db.t", schema={"k": "BIGINT", "at": "TIMESTAMP_LTZ(6)"}, partition_keys=["at"])
    table.write(pa.table({"k": [1, 2], "at": [moment, None]}, schema=table.arrow_schema))
    added = catalog.create_table("db.added", schema={"k": "BIGINT"})
    added.write(pa.table({"k": [1]}))
    added.alter([AddColumn("at", "TIMESTAMP_LTZ(6)")])

    with (
        setting("spark.sql.timestampType", "TIMESTAMP_NTZ"),
        setting("spark.sql.session.timeZone", "America/New_York"),
    ):
        assert_reads(table, NATIVE)
        assert_reads(table, None, where="at IS NOT NULL")
        assert_reads(added, None)
        copy = catalog.create_table("db.copy", schema={"k": "BIGINT", "at": "TIMESTAMP_LTZ(6)"})
        copy.write(table.to_spark())
    assert set(copy.to_arrow()["at"].to_pylist()) == {moment, None}


def test_timestamps_become_the_kind_of_the_table_by_the_zone_of_the_session(
    session: Any, catalog: Catalog, setting: Setting
) -> None:
    schema = {
        "odd `name.x": "TIMESTAMP(6)",
        "at": "TIMESTAMP_LTZ(6)",
        "of_day": "TIMESTAMP_LTZ(6)",
        "row": "ROW<a TIMESTAMP(6), b ARRAY<TIMESTAMP_LTZ(6)>, c MAP<STRING, TIMESTAMP(6)>>",
    }
    table = catalog.create_table("db.t", schema=schema)
    sql = """SELECT timestamp_ltz'2024-01-01 20:00:00' AS `odd ``name.x`, timestamp_ntz'2024-01-01 20:00:00' AS at,
        DATE'2024-01-01' AS of_day, struct(timestamp_ltz'2024-01-01 20:00:00' AS a,
        array(timestamp_ntz'2024-01-01 20:00:00') AS b, map('k', timestamp_ltz'2024-01-01 20:00:00') AS c) AS row"""
    clock, moment = datetime(2024, 1, 1, 20), datetime(2024, 1, 2, 1, tzinfo=UTC)
    expected = {
        "odd `name.x": clock,
        "at": moment,
        "of_day": datetime(2024, 1, 1, 5, tzinfo=UTC),
        "row": {"a": clock, "b": [moment], "c": [("k", clock)]},
    }

    with setting("spark.sql.session.timeZone", "America/New_York"):
        table.write(session.sql(sql))
        table.commit(table.prepare_write(session.sql(sql)), commit_user="prepared")
        table.write(table.to_spark())

    assert table.to_arrow().to_pylist() == [expected] * 4
