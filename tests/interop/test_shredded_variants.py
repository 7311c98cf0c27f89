"""VARIANT values in several columns of a file (shredded), by Java Paimon 2.0 and here: both read and write the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import open_table
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java


def given(**columns: Any) -> dict[str, str]:
    """The option with a type for each column."""
    fields = [{"id": index, "name": name, "type": kind} for index, (name, kind) in enumerate(columns.items())]
    return {"variant.shreddingSchema": json.dumps({"type": "ROW", "fields": fields})}


def a_row(**fields: Any) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": kind} for i, (n, kind) in enumerate(fields.items())]}


def a_list(kind: Any) -> dict[str, Any]:
    return {"type": "ARRAY", "element": kind}


OPTIONS: dict[str, dict[str, str]] = {
    "inferred": {"variant.inferShreddingSchema": "true"},
    "one field": given(v=a_row(a="INT")),
    "objects": given(v=a_row(z="STRING", a="BIGINT", b=a_row(c="STRING", a="DOUBLE", é="BOOLEAN"))),
    "arrays": given(v=a_list(a_row(a="BIGINT", b=a_list("STRING")))),
    "fields of arrays": given(v=a_row(l=a_list("DECIMAL(10, 2)"), a=a_row(x=a_list(a_list("BIGINT"))))),
    "numbers": given(v=a_row(a="TINYINT", b="SMALLINT", c="DECIMAL(9, 2)", d="DECIMAL(18, 3)", e="DECIMAL(38, 4)")),
    "floats": given(v=a_row(a="FLOAT", b="DOUBLE", c="STRING", d="VARIANT")),
    "a text": given(v="STRING"),
    "a number": given(v="DECIMAL(20, 2)"),
    "in bytes": given(v=a_row(a="VARIANT", b="VARIANT")),
}
VALUES = [
    '{"a":1,"b":"x","z":"y"}',
    '{"a":1000,"z":null,"b":{"c":"deep","a":1.5,"é":true,"other":[1,{"a":2,"k":3}]}}',
    '{"b":{"a":3},"q":{"b":1,"a":[{"z":1}]},"a":null}',
    '{"a":12345678901,"l":[1.25,3,"x",null],"b":[]}',
    '{"l":[],"a":{"x":[[1,2],[],[3,"t"],7]}}',
    '{"a":1.25,"b":70000,"c":1.5,"d":123456789.125,"e":1234567890123456789.25}',
    '{"a":-1,"b":-300,"c":-0.01,"d":0.001,"e":-99999999999999999999.5}',
    '{"a":1.5e3,"b":2.5e300,"c":"' + "ü" * 40 + '","d":{"x":{"y":[]}}}',
    '[{"a":1,"b":["p","q"]},{"b":[1]},{"c":1,"a":2},5,null]',
    "[]",
    "{}",
    '"text"',
    '"' + "long" * 40 + '"',
    "12345678901234567.25",
    "7",
    "null",
    "true",
    '{"' + "k" * 300 + '":1,"a":2}',
    json.dumps({f"f{index:03}": index for index in range(300)} | {"a": 5}),
    json.dumps(list(range(300))),
]


def row(key: int) -> list[Any]:
    return [key, None if key % 23 == 22 else VALUES[key % len(VALUES)]]


def created(java: JavaPaimon, path: Path, options: dict[str, str], **more: Any) -> str:
    fields = more.pop("fields", [["k", "BIGINT NOT NULL"], ["v", "VARIANT"]])
    java.call(
        "create_table",
        table=str(path),
        fields=fields,
        primary_keys=["k"],
        partition_keys=[],
        options={"bucket": "1", **options, **more},
    )
    return str(path)


def without_options(java: JavaPaimon, path: str, options: dict[str, str]) -> None:
    """Has Java write all values as it reads them, each as a whole."""
    java.call("alter", table=path, changes=[{"change": "remove_option", "name": name} for name in options])
    java.call("write", table=path, rows=[[-1, None]])
    java.call("compact", table=path, full=True)


def shredded(path: str) -> list[bool]:
    """Whether each file is, from the oldest to the newest."""
    files = sorted(Path(path).rglob("data-*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    return ["typed_value" in str(pq.ParquetFile(file).schema) for file in files]


def read(path: str) -> pa.Table:
    return open_table(path).to_arrow().sort_by("k")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_values_are_put_together_byte_for_byte_as_java_does(
    options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path
):
    path = created(paimon2, tmp_path / "t", options)
    rows = [row(key) for key in range(120)]
    if "variant.inferShreddingSchema" in options:
        rows = [
            [key, f'{{"a":{key},"b":"x{key}","c":{{"d":{key}.5,"e":[{key},2]}},"f{key % 3}":null}}'] for key, _ in rows
        ]
    paimon2.call("write", table=path, rows=rows[:70])
    paimon2.call("write", table=path, rows=rows[70:])
    assert any(shredded(path))
    found = read(path)
    assert found["k"].to_pylist() == list(range(120))
    without_options(paimon2, path, options)
    assert not shredded(path)[-1]
    again = read(path).slice(1)
    assert found["v"].to_pylist() == again["v"].to_pylist()


NESTED = [
    ["k", "BIGINT NOT NULL"],
    ["v", "VARIANT"],
    ["a", "ARRAY<VARIANT>"],
    ["m", "MAP<STRING, VARIANT>"],
    ["r", "ROW<x VARIANT, n INT>"],
]
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "primary key": (("k",), {"bucket": "1"}),
    "append": ((), {"bucket": "-1"}),
    "partial update": (("k",), {"bucket": "2", "merge-engine": "partial-update"}),
    "changelog by lookup": (("k",), {"bucket": "1", "changelog-producer": "lookup"}),
    "deletion vectors": (("k",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
}


@pytest.mark.parametrize(("keys", "options"), KINDS.values(), ids=KINDS)
def test_both_write_and_compact_in_turns(
    keys: tuple[str, ...], options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path
):
    path = str(tmp_path / "t")
    option = given(v=a_row(a="BIGINT", b=a_row(c="STRING")), r=a_row(x=a_row(a="BIGINT")))
    paimon2.call(
        "create_table", table=path, fields=NESTED, primary_keys=list(keys), partition_keys=[], options=options | option
    )

    def line(key: int) -> list[Any]:
        one, other = row(key)[1], row(key + 1)[1]
        return [key, one, [one, None, other], [["p", other], ["q", None]], [one, key] if key % 7 else None]

    lines = [line(key) for key in range(40)]
    paimon2.call("write", table=path, rows=lines[:20])
    paimon2.call("write", table=path, rows=lines[20:])
    table = open_table(path)
    if "deletion-vectors.enabled" in options:
        table.compact(full=True)
    by_java = sorted(paimon2.read(path))
    found = read(path)
    assert found.num_rows == 40
    # Written and compacted by this engine: Java reads the same.
    moved = found.set_column(0, found.schema.field("k"), pa.array(range(40, 80)))
    table.write(moved)
    if "deletion-vectors.enabled" in options:
        table.compact(full=True)
    both = by_java + [[one[0] + 40, *one[1:]] for one in by_java]
    assert sorted(paimon2.read(path)) == both
    table.compact(full=True)
    assert sorted(paimon2.read(path)) == both
    assert paimon2.problems(path) == []
    paimon2.call("compact", table=path, full=True)
    assert read(path).slice(0, 40).equals(found)
    assert open_table(path).verify("rows").status == "sound"
    few = open_table(path).to_arrow(columns=["k", "v"], where="k >= 70 and v is not null")
    assert sorted(few["k"].to_pylist()) == [one[0] for one in both if one[0] >= 70 and one[1] is not None]


def stored(path: str) -> pa.Table:
    """The columns of the only file, as it has them, but for the order of `value` and `metadata`."""
    [file] = Path(path).rglob("data-*.parquet")
    return pq.read_table(file, columns=["k", "v"])


def check_as_java_writes(java: JavaPaimon, tmp_path: Path, options: dict[str, str], rows: list[Any]) -> None:
    """Our file of the values that Java has made of the rows has the columns and bytes of Java's own file."""
    whole, theirs, ours = (
        created(java, tmp_path / name, given) for name, given in (("whole", {}), ("theirs", options), ("ours", options))
    )
    for path in (whole, theirs):
        java.call("write", table=path, rows=rows)
    open_table(ours).write(read(whole))
    found, expected = stored(ours), stored(theirs)
    assert shredded(ours) == shredded(theirs)
    if any(shredded(theirs)):
        assert found["v"].type == expected["v"].type
    assert found.to_pylist() == expected.to_pylist()
    assert java.read(ours) == java.read(theirs)
    assert read(ours).equals(read(theirs))
    assert java.problems(ours) == []


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_file_has_the_columns_and_bytes_that_java_writes(
    options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path
):
    check_as_java_writes(paimon2, tmp_path, options, [row(key) for key in range(120)])


INFERRED: dict[str, list[str]] = {
    "fields": ['{"a":1,"b":"x","c":{"d":1.5,"e":[1,2]}}', '{"a":2,"c":{"d":null,"e":[]}}'] * 20,
    "numbers": ['{"a":1,"b":1.25,"c":12345678901234567890.5,"d":1e300,"e":9223372036854775807}'] * 9,
    "long and short numbers": ['{"a":1,"b":9223372036854775807}', '{"a":9223372036854775807,"b":0.5}'] * 9,
    "numbers of too many digits": ['{"a":0.00000000000000000001}', '{"a":1234567890123456789012.5}'] * 9,
    "kinds that differ": ['{"a":1,"b":"x","c":[1]}', '{"a":"x","b":true,"c":{"d":1}}'] * 9,
    "rare fields": ['{"a":1}'] * 30 + ['{"a":1,"b":2}', '{"c":{"d":1}}'],
    "fields at the limit": ['{"a":1}'] * 18 + ['{"a":1,"b":2}'] * 2,
    "lists": ["[1,2]", "[3]"] * 9,
    "lists with an empty one": ["[1,2]", "[]"] * 9,
    "lists of objects": ['[{"a":1},{"a":2,"b":"x"}]', '[{"b":"y"}]'] * 9,
    "lists of lists": ["[[1],[2,3]]", '[["x"]]'] * 9,
    "texts": ['"x"', '"' + "y" * 80 + '"', "null"] * 9,
    "only nulls": ["null"] * 9,
    "no fields": ["{}"] * 9,
    "names in another order": ['{"b":1,"a":2,"😀":3,"￮":4}'] * 9,
    "many fields": [json.dumps({f"f{index:03}": index for index in range(400)})] * 9,
    "booleans and numbers": ['{"a":true,"b":0,"c":-0.10,"d":100.5}', '{"a":false,"b":-7,"c":0.0,"d":-99}'] * 9,
    "deep": ['{"a":' * 25 + "1" + "}" * 25] * 9,
}


@pytest.mark.parametrize("values", INFERRED.values(), ids=INFERRED)
def test_the_first_rows_choose_the_columns_that_java_chooses(values: list[str], paimon2: JavaPaimon, tmp_path: Path):
    rows = [[key, value] for key, value in enumerate([*values, None])]
    check_as_java_writes(paimon2, tmp_path, OPTIONS["inferred"], rows)


def test_parts_of_rows_get_columns_too(paimon2: JavaPaimon, tmp_path: Path):
    paths = [str(tmp_path / name) for name in ("whole", "theirs", "ours")]
    for path, options in zip(paths, ({}, OPTIONS["inferred"], OPTIONS["inferred"]), strict=True):
        options = {"bucket": "1", **options}
        paimon2.call("create_table", table=path, fields=NESTED, primary_keys=["k"], partition_keys=[], options=options)
    lines = [
        [k, f'{{"a":{k}}}', ['"x"', None], [["p", '{"b":1}']], [f'{{"n":[{k}],"t":"x"}}', k] if k % 3 else None]
        for k in range(30)
    ]
    for path in paths[:2]:
        paimon2.call("write", table=path, rows=lines)
    table = open_table(paths[2])
    table.write(read(paths[0]))
    files = [pq.read_table(next(Path(path).rglob("data-*.parquet")), columns=["v", "r"]) for path in paths[1:]]
    assert "typed_value" in {field.name for field in files[0]["r"].type.field("x").type}
    assert files[0].equals(files[1].cast(files[0].schema))
    assert paimon2.read(paths[1]) == paimon2.read(paths[2])
    table.write(read(paths[0]).slice(0, 10))
    table.compact(full=True)
    assert shredded(paths[2])[-1]
    assert paimon2.read(paths[1]) == paimon2.read(paths[2])
    assert table.verify("rows").status == "sound"
    assert paimon2.problems(paths[2]) == []


@pytest.mark.skipif(int(pa.__version__.partition(".")[0]) < 26, reason="older pyarrow reads at most 100 levels")
@pytest.mark.parametrize("begin", ['{"a":', "["], ids=["objects", "arrays"])
@pytest.mark.parametrize("depth", [40, 49, 60])
def test_columns_of_java_that_lie_deep_are_read(begin: str, depth: int, paimon2: JavaPaimon, tmp_path: Path):
    """Of objects or arrays within each other Java takes 50 apart; Parquet has two or three levels for each."""
    path = created(paimon2, tmp_path / "t", OPTIONS["inferred"])
    value = begin * depth + "1" + ("}" if begin[0] == "{" else "]") * depth
    paimon2.call("write", table=path, rows=[[key, value] for key in range(9)])

    found = read(path)

    assert [row[1] for row in paimon2.read(path)] == [value] * 9
    assert len(set(map(str, found["v"].to_pylist()))) == 1
    assert open_table(path).verify("rows").status == "sound"
    open_table(path).write(found.slice(0, 3))
    open_table(path).compact(full=True)
    assert [row[1] for row in paimon2.read(path)] == [value] * 9
