"""Primary keys that may be null (`primary-key.nullable`, newer than 2.0): read as Java reads them, not written.

Java 2.0 has no such option, but reads and writes tables whose schema says that key columns are nullable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import InvalidArgumentError, Table, UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

TYPES = {"k": "INT", "s": "STRING", "v": "INT"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "one number": (["k"], {}),
    "one text, orc": (["s"], {"file.format": "orc"}),
    "two": (["k", "s"], {"bucket": "2"}),
    "two, avro": (["s", "k"], {"file.format": "avro"}),
    "partial update": (["k", "s"], {"merge-engine": "partial-update"}),
    "sum": (["k", "s"], {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    "deletion vectors": (["k", "s"], {"deletion-vectors.enabled": "true"}),
    "dynamic buckets": (["k", "s"], {"bucket": "-1"}),
}
FILTERS: dict[str, list[Any]] = {
    "k IS NULL": ["isnull", "k"],
    "s IS NULL": ["isnull", "s"],
    "k = 3": ["=", "k", 3],
    "k >= 2": [">=", "k", 2],
    "s = 'b'": ["=", "s", "b"],
    "k < 3": ["<", "k", 3],
}


def made(java: JavaPaimon, path: Path, keys: list[str], options: dict[str, str]) -> Table:
    """A table whose key columns are nullable, as the option makes them."""
    java.call(
        "create_table",
        table=str(path),
        fields=[list(item) for item in TYPES.items()],
        primary_keys=keys,
        partition_keys=[],
        options={"bucket": "1", "primary-key.nullable": "true", **options},
    )
    schema = path / "schema" / "schema-0"
    stored = json.loads(schema.read_text())
    for field in stored["fields"]:
        field["type"] = field["type"].replace(" NOT NULL", "")
    schema.write_text(json.dumps(stored))
    return open_table(str(path))


def assert_alike(java: JavaPaimon, path: Path) -> list[Any]:
    table = open_table(str(path))
    found = sorted(rows_of(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    for where, asked in FILTERS.items():
        few = sorted(rows_of(table.to_arrow(where=where)), key=text_of)
        assert few == sorted(java.read(path, filter=asked, execute_filter=True), key=text_of), where
    assert rows_of(table.to_arrow(columns=["v"], where="k IS NULL")) != []
    return found


@pytest.mark.parametrize(("keys", "options"), KINDS.values(), ids=KINDS)
def test_rows_are_those_that_java_reads(keys: list[str], options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path, keys, options)
    texts = [None, "", "a", "b", "c"]
    for step in range(4):
        rows = [[None if key == 0 else key, texts[(key + step) % 5], 10 * step + key] for key in range(5)]
        paimon2.call("write", table=str(path), rows=[*rows, [None, None, step]])
        if step != 1:
            paimon2.call("compact", table=str(path), full=step == 2)
        assert_alike(paimon2, path)
    assert table.verify("rows").status == "sound"
    with pytest.raises(UnsupportedError, match=r"'primary-key\.nullable'"):
        table.write(table.to_arrow())
    with pytest.raises(UnsupportedError, match=r"'primary-key\.nullable'"):
        table.compact(full=True)


def test_without_the_option_nulls_are_neither_written_nor_compacted(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    made(paimon2, path, ["k"], {})
    schema = path / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"primary-key.nullable"', '"hive.any"'))
    table = open_table(str(path))
    table.write(pa.table({"k": [1], "s": ["a"], "v": [1]}).cast(table.arrow_schema))
    assert table.compact(full=True).status == "committed"
    with pytest.raises(InvalidArgumentError, match=r"column 'k' is NOT NULL, but it has a null"):
        table.write(pa.table({"k": [None], "s": ["a"], "v": [1]}).cast(table.arrow_schema))

    paimon2.call("write", table=str(path), rows=[[None, "b", 2]])
    with pytest.raises(UnsupportedError, match=r"keys are null.*'primary-key\.nullable'"):
        table.compact(full=True)
    assert sorted(rows_of(table.to_arrow()), key=text_of) == [[1, "a", 1], [None, "b", 2]]


def test_keys_that_must_not_be_null_are_damage(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    made(paimon2, path, ["k"], {})
    paimon2.call("write", table=str(path), rows=[[None, "a", 1]])
    schema = path / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"INT"', '"INT NOT NULL"', 1))

    assert open_table(str(path)).verify("rows").status != "sound"
