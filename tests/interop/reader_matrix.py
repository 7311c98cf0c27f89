"""Which engines read a table right, by what it uses: found out by trying it, with the real engines.

Each case is a table of one kind. Each engine reads all of its rows, and those of a filter where its interface has filters.
`paimon_engine/table/check/reader_facts.py` says the same of each kind; `test_reader_facts.py` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from paimon_engine import Catalog, Table, UnsupportedError, open_table
from paimon_engine.table.check.reader_facts import ENGINES, FAILS, RIGHT, WRONG
from tests.support.canonical import rows_of, text_of
from tests.support.chain_tables import make_chain
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.list_(pa.int32())), ("v", pa.int64()), ("w", pa.string())])
JAVA_TYPES = [["id", "BIGINT"], ["a", "ARRAY<INT>"], ["v", "BIGINT"], ["w", "STRING"]]


@dataclass(frozen=True)
class Case:
    """A table: who makes it, with which options, keys and steps."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ("id",)
    by_java: bool = False
    more: Callable[[Table], None] | None = None
    later: Mapping[str, Any] | None = None
    """What Java 2.0 writes at the end, if it makes the table."""
    compacts: bool = True
    chain: tuple[str, ...] = ()
    """Of a chain table, the branch of each write; the others write to the table itself."""
    second: str = "ARRAY<INT>"
    """Type of the column `a`, if Java makes the table."""


def rows(step: int) -> pa.Table:
    keys = range(step * 5, step * 5 + 10)
    return pa.table([list(keys), [[k] for k in keys], [k * 10 + step for k in keys], [f"w{k}" for k in keys]], SCHEMA)


_SECOND: Final[Mapping[str, Callable[[int], str]]] = {"VARIANT": str, "BLOB": "0x{:02x}".format}
"""What `a` of a key is, by its type."""


def make(case: Case, folder: Path, paimon2: JavaPaimon) -> str:
    """The path of a new table with some commits, compacted if the case says so, and one commit after that."""
    options = {"bucket": "1" if case.keys else "-1", **case.options}
    path = f"{folder}/db.db/t"
    if case.by_java:
        paimon2.call(
            "create_table",
            table=path,
            fields=[
                [name, case.second if name == "a" else f"{kind} NOT NULL" if name in case.keys else kind]
                for name, kind in JAVA_TYPES
            ],
            primary_keys=list(case.keys),
            partition_keys=["w"] if case.chain else [],
            options=options,
        )
        if case.chain:
            make_chain(paimon2, path)

        def write(step: int) -> Any:
            made = rows_of(rows(step))
            if case.second in _SECOND:
                made = [[row[0], _SECOND[case.second](row[0]), *row[2:]] for row in made]
            if case.chain:
                made = [[*row[:3], f"2025010{1 + step}"] for row in made]
            branch = case.chain[step] if case.chain else "main"
            return paimon2.call("write", table=path, rows=made, branch=branch)

        def compact() -> Any:
            return paimon2.call("compact", table=path)

    else:
        schema = pa.schema([field.with_nullable(field.name not in case.keys) for field in SCHEMA])
        table = Catalog(str(folder)).create_table("db.t", schema=schema, primary_keys=case.keys, options=options)

        def write(step: int) -> Any:
            return table.write(rows(step).cast(schema))

        def compact() -> Any:
            return table.compact(full=True)

    write(0)
    write(1)
    if case.compacts:
        compact()
    if not case.by_java and case.more is not None:
        case.more(table)
    elif case.later is not None:
        paimon2.call("write", table=path, **case.later)
    elif not case.compacts:
        write(2)
    return path


EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
DV = {"deletion-vectors.enabled": "true"}


def _write_null_keys(table: Table) -> None:
    for value in (7, 8):
        table.write(pa.table([[None, 3], [[1], [2]], [value, value], ["null", "three"]], table.arrow_schema))


def _write_at_once(table: Table) -> None:
    """Writers that begin at the same snapshot, and give different values to some keys, with equal numbers."""
    prepared = [
        table.prepare_write(
            rows(0).slice(first).set_column(2, "v", [[value + k for k in range(10 - first)]]).cast(table.arrow_schema)
        )
        for first, value in [(0, 100), (2, 200), (0, 300), (1, 400)]
    ]
    for number, messages in enumerate(reversed(prepared)):
        table.commit(messages, commit_user=f"writer {number}")


def _sum(**options: str) -> Case:
    return Case({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", **options}, compacts=False)


CASES: dict[str, Case] = {
    "primary key": Case(compacts=False),
    "append": Case(keys=()),
    "partial update": Case({"merge-engine": "partial-update", "fields.v.sequence-group": "w"}, compacts=False),
    "sum": _sum(),
    "first row": Case({"merge-engine": "first-row"}),
    "changelog by lookup": Case({"changelog-producer": "lookup"}, compacts=False),
    "orc": Case({"file.format": "orc"}, compacts=False),
    "avro": Case({"file.format": "avro"}, compacts=False),
    "manifests in ORC": Case({"manifest.format": "orc"}, compacts=False),
    "manifests in Parquet": Case({"manifest.format": "parquet"}, compacts=False),
    "dense statistics": Case({"metadata.stats-dense-store": "true"}, keys=()),
    "dense statistics, primary key": Case({"metadata.stats-dense-store": "true"}),
    "statistics of no columns, dense": Case(
        {"metadata.stats-dense-store": "true", "metadata.stats-mode": "none"}, keys=()
    ),
    "compression in file names": Case({"file.suffix.include.compression": "true"}, compacts=False),
    "thin files": Case({"data-file.thin-mode": "true"}, compacts=False),
    "data directory": Case({"data-file.path-directory": "data"}, compacts=False),
    "deletion vectors": Case(DV),
    "deletion vectors, append": Case(DV, keys=(), more=lambda table: table.delete("id < 3")),
    "deletion vectors of 64 bits": Case({**DV, "deletion-vectors.bitmap64": "true"}),
    "deletion vectors of 64 bits, append": Case(
        {**DV, "deletion-vectors.bitmap64": "true"}, keys=(), more=lambda table: table.delete("id < 3")
    ),
    "deletion vectors beside data": Case(
        {**DV, "index-file-in-data-file-dir": "true"}, keys=(), more=lambda table: table.delete("id < 3")
    ),
    "postponed buckets": Case({"bucket": "-2"}),
    "dynamic buckets": Case({"bucket": "-1"}, compacts=False),
    "sequence field": Case({"sequence.field": "v"}, compacts=False),
    "sequence field, descending": Case(
        {"sequence.field": "v", "sequence.field.sort-order": "descending"}, compacts=False
    ),
    "row ids": Case({"row-tracking.enabled": "true"}, keys=()),
    "merge of an aggregate of 1.2": Case(
        {"merge-engine": "aggregation", "fields.w.aggregate-function": "last_value", "fields.v.ignore-retract": "true"},
        compacts=False,
    ),
    "default value of 0.9": Case({"fields.w.default-value": "none"}, keys=()),
    "file index": Case({"file-index.bloom-filter.columns": "v"}, keys=()),
    "file index, bitmap": Case({"file-index.bitmap.columns": "v"}, keys=()),
    "file index, range bitmap": Case({"file-index.range-bitmap.columns": "v"}, keys=()),
    "clustered by Java": Case(
        {"clustering.incremental": "true", "clustering.columns": "v"}, keys=(), by_java=True, compacts=False
    ),
    "data evolution": Case(EVOLUTION, keys=(), by_java=True, compacts=False),
    "columns in several files": Case(
        EVOLUTION,
        keys=(),
        by_java=True,
        compacts=False,
        later={"columns": ["v"], "rows": [[1000 + key] for key in range(10)], "first_row_id": 0},
    ),
    "global index": Case({**DV, "pk-btree.index.columns": "v"}, by_java=True),
    "merge on read": Case({**DV, "deletion-vectors.merge-on-read": "true"}, by_java=True, compacts=False),
    "level 0 that is merged": Case(
        {**DV, "deletion-vectors.merge-on-read": "true"},
        more=lambda table: table.write(rows(2).cast(table.arrow_schema)),
    ),
    "snapshot ordering": Case(
        {"sequence.snapshot-ordering": "true", "write-only": "true"}, by_java=True, compacts=False
    ),
    "clustering override": Case({**DV, "pk-clustering-override": "true", "clustering.columns": "v"}),
    "equal numbers": Case(compacts=False, more=_write_at_once),
    "equal numbers, ordered": Case({"sequence.field": "v"}, compacts=False, more=_write_at_once),
    "null keys": Case({"primary-key.nullable": "true"}, compacts=False, more=_write_null_keys),
    "null keys, compacted": Case({"primary-key.nullable": "true"}, more=_write_null_keys),
    "variants": Case(by_java=True, second="VARIANT"),
    "blobs": Case(EVOLUTION, keys=(), by_java=True, second="BLOB"),
    "blobs, some written again": Case(
        EVOLUTION,
        keys=(),
        by_java=True,
        second="BLOB",
        compacts=False,
        later={"columns": ["a"], "rows": [["placeholder"], *([f"0x{key:02x}"] for key in range(9))], "first_row_id": 0},
    ),
    "chain table": Case(
        {
            "chain-table.enabled": "true",
            "sequence.field": "v",
            "bucket-key": "id",
            "partition.timestamp-pattern": "$w",
            "partition.timestamp-formatter": "yyyyMMdd",
        },
        keys=("id", "w"),
        by_java=True,
        compacts=False,
        chain=("snapshot", "delta", "delta"),
    ),
    "vectors": Case(by_java=True, second="VECTOR<FLOAT, 1>"),
    "vectors in files of their own": Case(
        {**EVOLUTION, "vector.file.format": "parquet"},
        keys=(),
        by_java=True,
        second="VECTOR<FLOAT, 1>",
        compacts=False,
    ),
    "written by Java 2.0": Case(by_java=True, compacts=False),
    "append by Java 2.0": Case(keys=(), by_java=True, compacts=False),
}


class Readers:
    """The engines, each by its name, as a function from the path and the value of a filter to rows."""

    def __init__(self, oracle: JavaPaimon, newest: NewestPaimon, paimon2: JavaPaimon, pypaimon: PyPaimon) -> None:
        self.paimon2 = paimon2
        self.ways: dict[str, Callable[[str, int | None], list[Any]]] = {
            "java-0.9": lambda path, v: _read_java(oracle, path, v),
            "java-1.4": lambda path, v: newest.read(path, equal=None if v is None else {"v": str(v)}),
            "java-2.0": lambda path, v: _read_java(paimon2, path, v),
            "pypaimon-2.1": lambda path, v: rows_of(pypaimon.read(path, equal=None if v is None else {"v": v})),
            "pypaimon-rust-0.4": lambda path, v: rows_of(pypaimon.read(path, client="rust")),
        }

    def outcome(self, engine: str, path: str, expected: list[Any]) -> str:
        """How the engine reads the table whose rows are expected."""
        asks: list[int | None] = [None, *sorted({row[2] for row in expected})[:4]]
        outcome = RIGHT
        for value in asks[: 1 if engine.startswith("pypaimon-rust") else None]:
            wanted = [row for row in expected if value is None or row[2] == value]
            try:
                found = self.ways[engine](path, value)
            except Exception:  # noqa: BLE001 (whatever another engine raises says that it cannot)
                return FAILS
            if sorted(map(_as_text, found)) != sorted(map(text_of, wanted)):
                outcome = WRONG
        return outcome


def _as_text(row: list[Any]) -> str:
    """Text of a row, in which a VARIANT of a small number is one as in Java: its JSON."""
    second = row[1]
    if isinstance(second, list) and len(second) == 2 and str(second[0]).startswith("0x0c"):
        return text_of([row[0], str(int(second[0][4:], 16)), *row[2:]])
    return text_of(row)


def _read_java(java: JavaPaimon, path: str, value: int | None) -> list[Any]:
    return java.read(path, filter=None if value is None else ["=", "v", value], execute_filter=value is not None)


def outcomes(case: Case, folder: Path, readers: Readers) -> tuple[str, dict[str, str]]:
    """The path of a table of the case, and how each engine reads it.

    Java 2.0 says what is right; this engine, where it reads the table, must agree.
    """
    path = make(case, folder, readers.paimon2)
    expected = readers.ways["java-2.0"](path, None)
    with suppress(UnsupportedError):
        assert sorted(map(_as_text, rows_of(open_table(path).to_arrow()))) == sorted(map(text_of, expected))
    return path, {ENGINES[engine]: readers.outcome(engine, path, expected) for engine in readers.ways}
