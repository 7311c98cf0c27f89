"""Tables whose rows were numbered part by part, with the Java library, which reads them and continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.write_parts import OPTIONS, new_table, write_parts


@pytest.mark.parametrize("kind", [kind for kind in OPTIONS if kind != "postponed"])
@pytest.mark.parametrize("own_file_bytes", [0, 500, 1 << 20])
def test_java_reads_parts_and_writes_on(kind: str, own_file_bytes: int, tmp_path: Path, oracle: JavaPaimon):
    table = new_table(tmp_path, kind)
    parts = [[(k, 10 * number) for k in range(number, 60 // (number + 1))] for number in range(4)]

    write_parts(table, parts, own_file_bytes)
    oracle.call("write", table=table.path, rows=[[3, -1], [100, -1]])
    write_parts(table, [[(4, -2)], [(5, -2)]], own_file_bytes)

    written = [row for rows in parts for row in rows] + [(3, -1), (100, -1), (4, -2), (5, -2)]
    expected = written if kind.startswith("append") else list(dict(written).items())
    rows = [list(row) for row in expected]
    assert_same_rows(oracle.read(table.path), rows)
    assert_same_rows(rows_of(table.to_arrow()), rows)
    oracle.assert_sound(table.path)
