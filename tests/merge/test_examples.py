"""The examples in docstrings give the rows and changes that they show."""

from __future__ import annotations

import ast
import importlib
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, EnvConfig, Table
from paimon_engine.table.files.deletion_vectors import vector_locations
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot

MODULES = (
    "paimon_engine.merge.partial_update",
    "paimon_engine.merge.aggregate",
    "paimon_engine.merge.changes",
    "paimon_engine.table.files.deletion_vectors",
    "paimon_engine.table.write.cross_partition",
)
_EXAMPLE = re.compile(
    r"Example[^:]*?\((.*?)\)[^:]*:.*?\n\n((?:    (?:write|compact|change|marked|row)\b[^\n]*\n)+)", re.DOTALL
)
_OPTION = re.compile(r"'([^']+)'\s*=\s*'([^']+)'")
_LINE = re.compile(r"    (\w+) *(.*?)(?: {2,}\(.*\))?$")


def examples() -> Iterator[tuple[str, dict[str, str], list[tuple[str, str]]]]:
    for name in MODULES:
        text = (importlib.import_module(name).__doc__ or "") + "\n"
        for number, found in enumerate(_EXAMPLE.finditer(text)):
            lines = [_LINE.fullmatch(line) for line in found[2].splitlines()]
            yield f"{name}, {number}", dict(_OPTION.findall(found[1])), [(line[1], line[2]) for line in lines if line]


EXAMPLES = {name: (options, lines) for name, options, lines in examples()}


def test_each_module_has_an_example() -> None:
    assert {name.partition(",")[0] for name in EXAMPLES} == set(MODULES)


def values(text: str) -> tuple[str, dict[str, Any]]:
    """The kind of a row, and its values."""
    kind = re.match(r"[+-][IUD]", text)
    pairs = re.findall(r"(\w+)=('[^']*'|\S+)", text)
    return kind[0] if kind else "+I", {
        key: None if value == "null" else ast.literal_eval(value) for key, value in pairs
    }


def make(options: dict[str, str], lines: list[tuple[str, str]]) -> tuple[Catalog, Table]:
    rows = [values(row)[1] for verb, text in lines if verb == "write" for row in text.split(";")]
    types = {key: pa.int64() for key in rows[0]}
    types |= {key: pa.string() for row in rows for key, value in row.items() if isinstance(value, str)}
    schema = pa.schema([pa.field(key, kind, nullable=key != "k") for key, kind in types.items()])
    catalog = Catalog(f"memory://{uuid.uuid4()}/lake")
    partition_keys = ["p"] if "p" in types else []
    return catalog, catalog.create_table(
        "db.t", schema=schema, primary_keys=["k"], partition_keys=partition_keys, options={"bucket": "1", **options}
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_true(name: str) -> None:
    options, lines = EXAMPLES[name]
    catalog, table = make(options, lines)
    expected: list[dict[str, Any]] = []
    changes: list[tuple[str, dict[str, Any]]] = []
    compacted = 0
    for verb, text in [*lines, ("end", "")]:
        if verb not in ("change", "end") and changes:
            assert changes_since(catalog, compacted) == sorted(changes, key=repr)
            changes = []
        match verb:
            case "write":
                kinds, rows = zip(*map(values, text.split("; ")), strict=True)
                columns = {key: [row.get(key) for row in rows] for key in table.arrow_schema.names}
                table.write(pa.table(columns, table.arrow_schema), row_kinds=list(kinds))
            case "compact":
                compacted = table.latest_snapshot_id() or 0
                assert table.compact(full=text != "light").status == "committed"
            case "marked":
                assert marked_rows(table) == int(text)
            case "change":
                changes.append(values(text))
            case "row":
                expected.append(values(text)[1])
    assert sorted(table.to_arrow().to_pylist(), key=repr) == sorted(expected, key=repr)


def changes_since(catalog: Catalog, snapshot: int) -> list[tuple[str, dict[str, Any]]]:
    log = catalog.table("db.t$audit_log")
    latest = catalog.table("db.t").latest_snapshot_id() or 0
    rows = log.to_arrow(incremental=(snapshot, latest)).to_pylist()
    return sorted(((row.pop("rowkind"), row) for row in rows), key=repr)


def marked_rows(table: Table) -> int:
    handle = load_table(table.path, EnvConfig(table.path))
    return sum(found.cardinality or 0 for found in vector_locations(handle, latest_snapshot(handle)).values())
