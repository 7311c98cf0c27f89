"""Primary keys that may be null (`primary-key.nullable`, newer than 2.0), beside Java: rows, files, filters.

Java 2.0 has no such option, but reads and writes tables whose schema says that key columns are nullable. Random
histories with such keys: `python -m tests.interop.histories --release 2 --null-keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, open_table
from paimon_engine.meta.schema_change import AddColumn, RenameColumn, SetOption, UpdateColumnNullability
from tests.interop.histories.shrink import failure
from tests.interop.histories.trial import program_for
from tests.support.canonical import rows_of, text_of
from tests.support.nullable_keys import allow_null_keys
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

pytestmark = pytest.mark.java

OPTION = "primary-key.nullable"
TYPES = {"k": "INT", "s": "STRING", "v": "INT"}
TYPES_AT = {name: at for at, name in enumerate(TYPES)}
INDEXES = {"file-index.bloom-filter.columns": "k,s", "file-index.bitmap.columns": "k"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "one number": (["k"], {}),
    "one text, orc": (["s"], {"file.format": "orc"}),
    "two": (["k", "s"], {"bucket": "2"}),
    "two, avro": (["s", "k"], {"file.format": "avro"}),
    "partial update": (["k", "s"], {"merge-engine": "partial-update"}),
    "sum": (["k", "s"], {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    "deletion vectors": (["k", "s"], {"deletion-vectors.enabled": "true"}),
    "dynamic buckets": (["k", "s"], {"bucket": "-1"}),
    "lookup": (["k", "s"], {"changelog-producer": "lookup", "bucket": "3"}),
    "file indexes": (["k", "s"], {**INDEXES, "bucket": "2"}),
    "file indexes, orc": (["s"], {**INDEXES, "file.format": "orc"}),
    "thin files": (["k", "s"], {"data-file.thin-mode": "true"}),
    "bucket by a part": (["k", "s"], {"bucket": "3", "bucket-key": "s"}),
    "buckets by remainders": (["k"], {"bucket": "3", "bucket-function.type": "mod"}),
}
FILTERS: dict[str, list[Any]] = {
    "k IS NULL": ["isnull", "k"],
    "s IS NULL": ["isnull", "s"],
    "k = 3": ["=", "k", 3],
    "k >= 2": [">=", "k", 2],
    "s = 'b'": ["=", "s", "b"],
    "k < 3": ["<", "k", 3],
}


def made(java: JavaPaimon, path: Path, keys: list[str], options: Mapping[str, str], parts: tuple[str, ...] = ()):
    """A table whose key columns are nullable, as the option makes them."""
    java.call(
        "create_table",
        table=str(path),
        fields=[list(item) for item in TYPES.items()],
        primary_keys=keys,
        partition_keys=list(parts),
        options={"bucket": "1", OPTION: "true", **options},
    )
    allow_null_keys(path)
    return open_table(str(path))


def arrow(table: Table, rows: list[list[Any]]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=table.arrow_schema)


def assert_alike(java: JavaPaimon, path: Path) -> list[Any]:
    table = open_table(str(path))
    found = sorted(rows_of(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    for where, asked in FILTERS.items():
        few = sorted(rows_of(table.to_arrow(where=where)), key=text_of)
        assert few == sorted(java.read(path, filter=asked, execute_filter=True), key=text_of), where
    assert java.problems(path) == []
    return found


def rows(chance: Random, step: int) -> list[list[Any]]:
    """A null in each key column, and sometimes in all of them at once; no key twice."""
    texts = [None, "", "a", "b", "c"]
    found = [[None if key == 0 else key, texts[(key + step) % 5], 10 * step + key] for key in range(5)]
    return [*found, [None, None, step]] if texts[step % 5] is not None else chance.sample(found, 5)


@pytest.mark.parametrize(("keys", "options"), KINDS.values(), ids=KINDS)
def test_both_read_what_both_write_and_compact(
    keys: list[str], options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path
):
    path = tmp_path / "t"
    table = made(paimon2, path, keys, options)
    hides = "deletion-vectors.enabled" in options
    chance = Random(text_of(keys))
    for step in range(6):
        if step % 2:
            table.write(arrow(table, rows(chance, step)))
        else:
            paimon2.call("write", table=str(path), rows=rows(chance, step))
        if step in (0, 2) and options.get("bucket") != "-1":
            paimon2.call("compact", table=str(path), full=step == 2)
        elif step != 1 or hides:
            table.compact(full=step == 5)
        assert None in {row[TYPES_AT[keys[0]]] for row in assert_alike(paimon2, path)}
    if "merge-engine" not in options:
        table.write(arrow(table, [[None, None, 0]]), row_kinds=["-D"])
        table.compact(full=True)
        key = [TYPES_AT[name] for name in keys]
        assert {None} not in [{row[at] for at in key} for row in assert_alike(paimon2, path)]
    paimon2.call("compact", table=str(path), full=True)
    assert_alike(paimon2, path)
    assert open_table(str(path)).verify("rows").status == "sound"


@pytest.mark.parametrize("keys", [["k", "s"], ["s"]], ids=["a key in the partition", "keys over all partitions"])
def test_a_partition_may_be_null_and_a_key_in_it(keys: list[str], paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path, keys, {"bucket": "-1" if len(keys) == 1 else "2"}, ("k",))
    model: dict[Any, list[Any]] = {}
    for step in range(5):
        some = [[None, None, step], [step % 2, None, 1], [None, "a", 2], [step % 3, "b", 3]]
        some = some if len(keys) == 2 else [some[0], some[2]]
        if step % 2 and len(keys) == 2:
            paimon2.call("write", table=str(path), rows=some)
        else:
            table.write(arrow(table, some))
        model |= {text_of(row[-1 - len(keys) : -1]): row for row in some}
        assert assert_alike(paimon2, path) == sorted(model.values(), key=text_of)
        table.compact(full=step % 2 == 0)
        assert assert_alike(paimon2, path) == sorted(model.values(), key=text_of)
    assert open_table(str(path)).verify("rows").status == "sound"


def test_a_key_that_is_null_moves_to_another_partition(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path, ["s"], {"bucket": "-1"}, ("k",))
    table.write(arrow(table, [[1, None, 1], [1, "a", 1]]))
    table.write(arrow(table, [[None, "a", 2], [2, None, 2]]))
    assert assert_alike(paimon2, path) == sorted([[None, "a", 2], [2, None, 2]], key=text_of)
    table.write(arrow(table, [[None, None, 3]]))
    assert assert_alike(paimon2, path) == sorted([[None, "a", 2], [None, None, 3]], key=text_of)


@pytest.mark.timeout(600)
def test_histories_with_null_keys_are_one(paimon2: JavaPaimon):
    """The first seeds met each error that more of them found: nulls that a range of keys left out, decimals."""
    found = {seed: failure(program_for(seed, "2", null_keys=True), paimon2) for seed in seeds(6)}

    assert {seed: one for seed, one in found.items() if one is not None} == {}


def test_a_table_of_ours_takes_nulls_and_keeps_taking_them(tmp_path: Path, paimon2: JavaPaimon):
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("s", pa.string()), ("v", pa.int32())])
    options = {"bucket": "1", OPTION: "true"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k", "s"], options=options)
    assert [str(field.type.nullable) for field in table.schema.row_type] == ["True", "True", "True"]
    table.write(arrow(table, [[None, None, 1], [1, None, 1]]))

    table.alter([AddColumn("w", "INT"), RenameColumn("s", "t")])
    table = open_table(table.path)
    table.write(pa.table({"k": [None, None], "t": [None, "x"], "v": [2, 2], "w": [7, 7]}).cast(table.arrow_schema))
    expected = [[1, None, 1, None], [None, "x", 2, 7], [None, None, 2, 7]]
    assert sorted(rows_of(table.to_arrow()), key=text_of) == sorted(expected, key=text_of)
    assert sorted(paimon2.read(Path(table.path)), key=text_of) == sorted(expected, key=text_of)
    with pytest.raises(InvalidArgumentError, match="'k' is part of the primary key, so it cannot be made NOT NULL"):
        table.alter([UpdateColumnNullability("k", nullable=False)])
    with pytest.raises(InvalidArgumentError, match=r"primary-key\.nullable"):
        table.alter([SetOption(OPTION, "false")])
    with pytest.raises(InvalidArgumentError, match=r"primary-key\.nullable"):
        open_table(table.path, options={OPTION: "false"})


def test_the_option_needs_a_primary_key(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match=r"'primary-key\.nullable' = 'true' is for tables with a primary"):
        Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("k", pa.int32())]), options={OPTION: "true"})


def test_without_the_option_nulls_are_compacted_but_not_written(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    made(paimon2, path, ["k"], {})
    schema = path / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace(f'"{OPTION}"', '"hive.any"'))
    table = open_table(str(path))
    table.write(arrow(table, [[1, "a", 1]]))
    with pytest.raises(InvalidArgumentError, match=r"column 'k' is NOT NULL, but it has a null"):
        table.write(arrow(table, [[None, "a", 1]]))

    paimon2.call("write", table=str(path), rows=[[None, "b", 2]])
    assert table.compact(full=True).status == "committed"
    assert sorted(rows_of(table.to_arrow()), key=text_of) == [[1, "a", 1], [None, "b", 2]]


def test_keys_that_must_not_be_null_are_damage(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    made(paimon2, path, ["k"], {})
    paimon2.call("write", table=str(path), rows=[[None, "a", 1]])
    schema = path / "schema" / "schema-0"
    without = schema.read_text().replace(f'"{OPTION}"', '"hive.any"')
    schema.write_text(without.replace('"INT"', '"INT NOT NULL"', 1))

    assert open_table(str(path)).verify("rows").status != "sound"


def test_a_table_that_java_has_altered_keeps_its_nulls(paimon2: JavaPaimon, tmp_path: Path):
    """Java 2.0 does not know the option, makes the columns NOT NULL in each new schema, and then misreads nulls."""
    path = tmp_path / "t"
    table = made(paimon2, path, ["k", "s"], {})
    table.write(arrow(table, [[None, "a", 1], [1, None, 2]]))
    paimon2.call(
        "alter", table=str(path), changes=[{"change": "set_option", "name": "snapshot.num-retained.max", "value": "99"}]
    )
    assert '"INT NOT NULL"' in (path / "schema" / "schema-1").read_text("utf-8")

    table = open_table(str(path))
    table.write(arrow(table, [[None, "a", 3]]))
    table.compact(full=True)

    expected = sorted([[None, "a", 3], [1, None, 2]], key=text_of)
    assert sorted(rows_of(table.to_arrow()), key=text_of) == expected
    assert table.verify("rows").status == "sound"
    table.alter([SetOption("snapshot.num-retained.max", "98")])
    assert assert_alike(paimon2, path) == expected
