"""Deletion vectors that readers merge with level 0: rows are those that Java Paimon 2.0 reads, in turns of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["v", "BIGINT"], ["w", "STRING"]]
OPTIONS = {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "sequence field": {"sequence.field": "v"},
    "64 bits": {"deletion-vectors.bitmap64": "true"},
}


def assert_alike(java: JavaPaimon, path: str) -> list[Any]:
    """All rows, rows of a filter, and those of the highest level."""
    table = open_table(path)
    found = sorted(rows_of(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    few = rows_of(table.to_arrow(where="v >= 1020"))
    answer = java.read(path, filter=[">=", "v", 1020], execute_filter=True)
    assert sorted(few, key=text_of) == sorted((row for row in answer if row[1] >= 1020), key=text_of)
    highest = rows_of(open_table(f"{path}$ro").to_arrow())
    assert sorted(highest, key=text_of) == sorted(java.read(path, system="ro"), key=text_of)
    assert java.problems(path) == []
    return found


@pytest.mark.parametrize("options", ENGINES.values(), ids=ENGINES)
def test_rows_are_those_that_java_reads(options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    paimon2.call(
        "create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options={**OPTIONS, **options}
    )
    table = open_table(path)

    def rows(step: int) -> list[list[Any]]:
        keys = range(step * 7, step * 7 + 20)
        return [[key, 1000 + 40 * step - key, None if key % 3 == step % 3 else f"w{step}"] for key in keys]

    for step in range(6):
        if step % 2:
            paimon2.call("write", table=path, rows=rows(step))
        else:
            columns = zip(*rows(step), strict=True)
            table.write(pa.table([list(column) for column in columns], schema=table.arrow_schema))
        seen = assert_alike(paimon2, path)
        assert len(seen) == step * 7 + 20
        if step == 1:
            table.compact(full=True)
        if step == 2:
            paimon2.call("compact", table=path, full=False)
        if step == 4:
            table.compact()
        assert len(assert_alike(paimon2, path)) == len(seen)
    if options.get("merge-engine") != "aggregation":
        paimon2.call("write", table=path, kinds=True, rows=[["-D", 3, 9999, None], ["-D", 30, 9999, None]])
        assert len(assert_alike(paimon2, path)) == len(seen) - 2
    assert open_table(path).verify("rows").status == "sound"


def test_what_changed_is_refused_by_name(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    paimon2.call("create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options=OPTIONS)
    for key in range(2):
        paimon2.call("write", table=path, rows=[[key, 1, "w"]])

    with pytest.raises(UnsupportedError, match=r"deletion-vectors\.merge-on-read"):
        open_table(path).to_arrow(incremental=(1, 2))
