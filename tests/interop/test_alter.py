"""Tables whose schema changed again and again, by us and by Java: both read, write and check the same table."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, open_table
from paimon_engine.meta.casts import is_alterable
from paimon_engine.meta.type_text import parse_type_text
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon

STEPS = 8
TYPES = [
    "SMALLINT",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(20, 2)",
    "STRING",
    "VARCHAR(4)",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP(3)",
]
VALUES: dict[str, list[Any]] = {
    "SMALLINT": [0, 1, -1, 300, 32767],
    "INT": [0, -1, 70000, 2147483647],
    "BIGINT": [0, -1, 1700000000, 2**40],
    "DOUBLE": [0.0, -2.5, 1e10, 123.456],
    "DECIMAL(20, 2)": ["0.00", "-1.50", "123456789.99"],
    "STRING": ["1", "0", "12"],
    "VARCHAR(4)": ["1", "0", "7"],
    "BOOLEAN": [True, False],
    "DATE": ["1970-01-01", "2024-02-29"],
    "TIMESTAMP(3)": ["1970-01-01T00:00:01.500000000", "2024-02-29T13:05:09.123000000"],
}
JAVA_NAMES = {
    "add_column": "add",
    "rename_column": "rename",
    "drop_column": "drop",
    "update_column_type": "type",
    "move_column": "move",
    "update_column_comment": "column_comment",
    "set_option": "set_option",
}


def seeds() -> range:
    first, _, last = os.environ.get("PAIMON_TEST_SEEDS", "0-7").partition("-")
    return range(int(first), int(last or first) + 1)


class RandomHistory:
    """A table with a key `k` and other columns that are added, dropped and changed; its current columns."""

    def __init__(self, seed: int, path: str) -> None:
        self.random = Random(seed)
        self.path = path
        self.columns: dict[str, str] = {"k": "INT", "a": "INT", "b": "STRING"}
        # Types that a column has had: values of each must have a cast to what comes next.
        self.earlier: dict[str, list[str]] = {"a": ["INT"], "b": ["STRING"]}
        self.keyed = self.random.random() < 0.6
        self.names = iter(f"n{i}" for i in range(100))

    def create(self, oracle: JavaPaimon) -> None:
        options = {"bucket": "1", "file.format": self.random.choice(["parquet", "orc", "avro"])}
        if not self.keyed:
            options["bucket"] = "-1"
        fields = [["k", "INT NOT NULL" if self.keyed else "INT"], ["a", "INT"], ["b", "STRING"]]
        keys = ["k"] if self.keyed else []
        oracle.call("create_table", table=self.path, fields=fields, primary_keys=keys, options=options)

    def rows(self) -> list[list[Any]]:
        values = [[i if name == "k" else self.value(kind) for name, kind in self.columns.items()] for i in range(4)]
        return self.random.sample(values, 3)

    def value(self, kind: str) -> Any:
        return None if self.random.random() < 0.2 else self.random.choice(VALUES[kind])

    def change(self) -> dict[str, Any]:
        """A change in our JSON form, which this history then takes for done."""
        others = [name for name in self.columns if name != "k"]
        kind = self.random.choice(
            ["add_column", "rename_column", "drop_column", *["update_column_type"] * 3, "move_column", "set_option"]
        )
        name = self.random.choice(others) if others else "k"
        if kind == "rename_column" and others:
            to = next(self.names)
            self.columns = {to if one == name else one: data_type for one, data_type in self.columns.items()}
            self.earlier[to] = self.earlier.pop(name)
            return {"change": kind, "name": name, "to": to}
        if kind == "drop_column" and len(others) > 1:
            del self.columns[name]
            return {"change": kind, "name": name}
        if kind == "update_column_type" and others and (fitting := self.fitting(name)):
            self.columns[name] = self.random.choice(fitting)
            self.earlier[name].append(self.columns[name])
            return {"change": kind, "name": name, "type": self.columns[name]}
        if kind == "move_column" and len(self.columns) > 1 and next(iter(self.columns)) != name:
            self.columns = {name: self.columns[name], **self.columns}
            return {"change": kind, "name": name, "first": True}
        if kind == "set_option":
            return {"change": kind, "key": "write-buffer-size", "value": f"{self.random.randint(1, 90)} mb"}
        new, data_type = next(self.names), self.random.choice(TYPES)
        after = self.random.choice(list(self.columns))
        self.columns = {
            key: value
            for one, old in self.columns.items()
            for key, value in ([(one, old), (new, data_type)] if one == after else [(one, old)])
        }
        self.earlier[new] = [data_type]
        return {"change": "add_column", "name": new, "type": data_type, "after": after}

    def fitting(self, name: str) -> list[str]:
        """Types to which all earlier values of the column can be cast."""
        safe = {"DATE", "BOOLEAN", "TIMESTAMP(3)"}
        return [
            kind
            for kind in TYPES
            if kind != self.columns[name]
            and all(
                old == kind or is_alterable(parse_type_text(old), parse_type_text(kind)) for old in self.earlier[name]
            )
            and not (kind in safe and {"STRING", "VARCHAR(4)"} & {*self.earlier[name]})
            # Text of long numbers is cut, and then no number any more.
            and not (kind == "VARCHAR(4)" or ("VARCHAR(4)" in self.earlier[name] and kind != "STRING"))
            and not (kind != "STRING" and "STRING" in self.earlier[name][1:])
        ]


def to_java(change: dict[str, Any]) -> dict[str, Any]:
    return {**change, "change": JAVA_NAMES[change["change"]]}


@pytest.mark.parametrize("seed", seeds())
def test_both_engines_alter_and_read_one_table(tmp_path: Path, seed: int, oracle: JavaPaimon):
    history = RandomHistory(seed, str(tmp_path / "db.db/t"))
    history.create(oracle)
    for step in range(STEPS):
        changes = [history.change() for _ in range(history.random.randint(1, 3))]
        if history.random.random() < 0.5:
            open_table(history.path).alter(changes)
        else:
            oracle.call("alter", table=history.path, changes=[to_java(change) for change in changes])
        assert open_table(history.path).schema.row_type.names == tuple(history.columns)
        oracle.call("write", table=history.path, rows=history.rows())
        if history.keyed and history.random.random() < 0.3:
            open_table(history.path).compact(full=True)

        table = open_table(history.path)
        rows = oracle.read(history.path)
        assert_same_rows(table.to_arrow(), rows, f"after step {step}: {changes}")
        for name in history.columns:
            known = table.to_arrow([name], f"{name} IS NOT NULL")
            assert known.num_rows == sum(row[list(history.columns).index(name)] is not None for row in rows)
    oracle.assert_sound(history.path)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_reads_the_rows_that_we_write_after_our_changes(tmp_path: Path, file_format: str, oracle: JavaPaimon):
    path = str(tmp_path / "db.db/t")
    fields = [["k", "INT NOT NULL"], ["a", "INT"], ["b", "STRING"]]
    options = {"bucket": "1", "file.format": file_format}
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], options=options)
    oracle.call("write", table=path, rows=[[1, 300, "x"], [2, None, "y"]])
    table = open_table(path)

    table.alter(
        [
            {"change": "update_column_type", "name": "a", "type": "TINYINT"},
            {"change": "rename_column", "name": "b", "to": "text"},
            {"change": "add_column", "name": "n", "type": "DECIMAL(5, 2)", "first": True},
        ]
    )
    table.write(table.to_arrow(where="k = 1").set_column(3, "text", [["z"]]))

    assert_same_rows([[None, 1, 44, "z"], [None, 2, None, "y"]], oracle.read(path))
    assert_same_rows(table.to_arrow(), oracle.read(path))
    oracle.assert_sound(path)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_keys_that_java_made_wider_are_read_written_and_compacted(tmp_path: Path, file_format: str, oracle: JavaPaimon):
    path = str(tmp_path / "db.db/t")
    fields = [["k", "TINYINT NOT NULL"], ["s", "VARCHAR(3) NOT NULL"], ["v", "INT"]]
    options = {"bucket": "2", "file.format": file_format}
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k", "s"], options=options)
    oracle.call("write", table=path, rows=[[1, "a", 1], [2, "b", 1], [100, "c", 1]])
    oracle.call("write", table=path, rows=[[2, "b", 2]])
    for kind in ("INT NOT NULL", "BIGINT NOT NULL"):
        oracle.call("alter", table=path, changes=[{"change": "type", "name": "k", "type": kind}])
        assert_same_rows(open_table(path).to_arrow(), oracle.read(path), kind)
        oracle.call("write", table=path, rows=[[2, "b", 3], [7, "d", 3]])
    oracle.call("alter", table=path, changes=[{"change": "type", "name": "s", "type": "STRING NOT NULL"}])

    table = open_table(path)
    table.write(table.to_arrow(where="k > 2"))
    table.write(pa.table([[1 << 40], ["long text"], [4]], table.arrow_schema))
    expected = [[1, "a", 1], [2, "b", 3], [7, "d", 3], [100, "c", 1], [1 << 40, "long text", 4]]
    assert_same_rows(expected, table.to_arrow())
    assert_same_rows(expected, oracle.read(path))
    assert table.to_arrow(where="k = 100")["v"].to_pylist() == [1]
    for full in (False, True):
        table.compact(full=full)
        assert_same_rows(expected, open_table(path).to_arrow())
        assert_same_rows(expected, oracle.read(path))
    oracle.assert_sound(path)
    assert table.verify("rows").problems == ()


def test_keys_below_zero_keep_their_order_when_they_become_wider(tmp_path: Path, oracle: JavaPaimon):
    path = str(tmp_path / "db.db/t")
    fields = [["k", "INT NOT NULL"], ["v", "INT"]]
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], options={"bucket": "1"})
    oracle.call("write", table=path, rows=[[-5, 0], [-1, 1], [7, 2]])
    oracle.call("write", table=path, rows=[[-5, 3]])
    oracle.call("alter", table=path, changes=[{"change": "type", "name": "k", "type": "BIGINT NOT NULL"}])

    # Java 0.9 takes −5 for a large number here, and gives the row twice.
    table = open_table(path)
    assert_same_rows([[-5, 3], [-1, 1], [7, 2]], table.to_arrow())
    for where, found in (("k = -1", [[-1, 1]]), ("k < 0", [[-5, 3], [-1, 1]]), ("k > 7", [])):
        assert_same_rows(found, table.to_arrow(where=where), where)
    table.compact(full=True)
    assert_same_rows([[-5, 3], [-1, 1], [7, 2]], oracle.read(path))


FINE: list[dict[str, Any]] = [
    {"options": {"bucket": "-1"}},
    {"options": {"bucket": "1", "bucket-key": "k"}},
    {"keys": ["k"], "options": {"bucket": "1", "sequence.field": "v", "snapshot.num-retained.min": "1"}},
    {"keys": ["k", "v"], "parts": ["v"], "options": {"bucket": "1", "fields.l.stats-mode": "none"}},
    {"keys": ["k"], "options": {"bucket": "1", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}},
]
CREATED: list[tuple[dict[str, Any], str]] = [
    ({"options": {"bucket": "0"}}, "'bucket' = '0'"),
    ({"options": {"bucket": "-1", "bucket-key": "k"}}, "'bucket-key' requires a fixed number"),
    ({"options": {"bucket": "1"}}, "needs 'bucket-key'"),
    ({"options": {"bucket": "1", "bucket-key": "l"}}, "'l' must not have a nested type"),
    ({"options": {"full-compaction.delta-commits": "2"}}, "'full-compaction.delta-commits'"),
    ({"options": {"fields.z.stats-mode": "none"}}, "no column 'z'"),
    ({"options": {"fields.v.default-value": "many"}}, "does not fit"),
    ({"options": {"changelog-producer": "input"}}, "needs a primary key"),
    ({"options": {"streaming-read-overwrite": "true"}}, "needs a primary key"),
    ({"options": {"snapshot.num-retained.min": "0"}}, "at least 1"),
    ({"options": {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"}}, "more than the maximum"),
    ({"options": {"changelog.num-retained.min": "5", "changelog.num-retained.max": "4"}}, "more than the maximum"),
    ({"options": {"partition.expiration-time": "1 d"}}, "needs partition keys"),
    ({"options": {"rowkind.field": "z"}}, "no column 'z'"),
    ({"options": {"scan.mode": "from-snapshot"}}, "exactly one of"),
    ({"options": {"scan.mode": "latest", "scan.snapshot-id": "1"}}, "does not go together"),
    ({"options": {"scan.snapshot-id": "1", "scan.tag-name": "a"}}, "exactly one of"),
    ({"options": {"scan.fallback-branch": "nowhere"}}, "no such branch"),
    ({"keys": ["k"], "options": {"bucket": "1", "sequence.field": "v,v"}}, "twice"),
    ({"keys": ["k"], "options": {"bucket": "1", "sequence.field": "z"}}, "no column 'z'"),
    ({"keys": ["k"], "options": {"bucket": "1", "fields.k.default-value": "1"}}, "takes no default value"),
    ({"keys": ["k"], "parts": ["v"], "options": {"bucket": "1"}}, "must contain all partition keys"),
    ({"keys": ["k"], "parts": ["v"], "options": {"sequence.field": "l"}}, "'sequence.field'"),
    ({"keys": ["l"], "options": {"bucket": "1"}}, "'l' must not have a nested type"),
    ({"keys": ["k"], "options": {"primary-key": "k"}}, "leave one out"),
]


SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32()), ("l", pa.list_(pa.int32()))])
FIELDS = [["k", "INT"], ["v", "INT"], ["l", "ARRAY<INT>"]]


def create_by(folder: Path, case: dict[str, Any], oracle: JavaPaimon, engine: str) -> None:
    keys, parts, options = case.get("keys", []), case.get("parts", []), case["options"]
    if engine == "java":
        path = str(folder / "db.db/j")
        oracle.call("create_table", table=path, fields=FIELDS, primary_keys=keys, partition_keys=parts, options=options)
        return
    catalog = Catalog(str(folder))
    catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, partition_keys=parts, options=options)


@pytest.mark.parametrize(("case", "message"), CREATED)
def test_java_refuses_the_tables_that_we_refuse(tmp_path: Path, case: dict[str, Any], message: str, oracle: JavaPaimon):
    with pytest.raises(InvalidArgumentError, match=message):
        create_by(tmp_path, case, oracle, "ours")
    with pytest.raises(Exception, match="Exception"):
        create_by(tmp_path, case, oracle, "java")


@pytest.mark.parametrize("case", FINE)
def test_java_takes_the_tables_that_we_take(tmp_path: Path, case: dict[str, Any], oracle: JavaPaimon):
    create_by(tmp_path, case, oracle, "ours")
    create_by(tmp_path, case, oracle, "java")
