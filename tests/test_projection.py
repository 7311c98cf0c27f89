"""Columns of a read: fields of rows by a name with dots, in the requested order, each once, in the right case."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, col

ADDRESS = pa.struct([("city", pa.string()), ("place", pa.struct([("x", pa.float64()), ("y.z", pa.int32())]))])
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("address", ADDRESS), ("home", ADDRESS), ("a.b", pa.int32())]
)
ROWS = [
    {"k": 1, "address": {"city": "Ulm", "place": {"x": 1.5, "y.z": 7}}, "home": None, "a.b": 10},
    {"k": 2, "address": {"city": None, "place": None}, "home": {"city": "Jena", "place": None}, "a.b": 20},
    {"k": 3, "address": None, "home": None, "a.b": None},
]
KINDS: list[dict[str, Any]] = [
    {"options": {}},
    {"options": {"file.format": "orc"}},
    {"options": {"bucket": "1"}, "primary_keys": ["k"]},
    {"options": {"bucket": "1", "merge-engine": "partial-update"}, "primary_keys": ["k"]},
    {"options": {"bucket": "1", "merge-engine": "aggregation"}, "primary_keys": ["k"]},
]


def make(**how: Any) -> Table:
    table = Catalog(f"memory://{uuid.uuid4()}/lake").create_table("db.t", schema=SCHEMA, **how)
    table.write(pa.Table.from_pylist(ROWS[:2], SCHEMA))
    table.write(pa.Table.from_pylist(ROWS[2:], SCHEMA))
    if "primary_keys" in how:
        table.write(pa.Table.from_pylist(ROWS[1:2], SCHEMA))
    return table


@pytest.mark.parametrize("how", KINDS, ids=str)
def test_fields_of_rows_are_columns_of_their_own(how: dict[str, Any]):
    table = make(**how)

    found = table.to_arrow(["address.place.x", "k", "address.city"]).sort_by("k")
    assert found.schema.names == ["x", "k", "city"]
    assert found.schema.field("x").type == pa.float64()
    assert found.to_pylist() == [
        {"x": 1.5, "k": 1, "city": "Ulm"},
        {"x": None, "k": 2, "city": None},
        {"x": None, "k": 3, "city": None},
    ]
    assert table.to_arrow(["k", "address.place"]).sort_by("k")["place"].to_pylist() == [
        {"x": 1.5, "y.z": 7},
        None,
        None,
    ]
    assert sorted(table.to_arrow(["a.b"])["a.b"].to_pylist(), key=str) == [10, 20, None]
    assert table.to_arrow(["address.place.y.z"], where=col("address.place.y.z") == 7).to_pylist() == [{"y.z": 7}]
    assert table.to_arrow(["home"], where=col("home.city") == "Jena").to_pylist() == [{"home": ROWS[1]["home"]}]
    assert table.to_arrow(["k"], where="home.city IS NULL AND address.city = 'Ulm'").to_pylist() == [{"k": 1}]
    assert table.to_arrow(["address", "address.city"], where="k = 1").to_pylist() == [
        {"address": ROWS[0]["address"], "city": "Ulm"}
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["k", "k"], "'k' would come twice; leave one out"),
        (["address.city", "k", "home.city"], "'home.city' would come twice; there is another 'city'"),
        (["K"], "no column 'K'; did you mean 'k'?"),
        (["adress"], "no column 'adress'; did you mean 'address'?"),
        (["address.town"], "no column 'address.town'"),
        (["k.x"], "no column 'k.x'"),
    ],
    ids=str,
)
def test_what_is_no_column_is_refused(columns: list[str], message: str):
    with pytest.raises(InvalidArgumentError, match=message.replace("?", r"\?")):
        make(options={}).to_arrow(columns)


def test_a_limit_stops_before_other_files_are_opened():
    table = Catalog(f"memory://{uuid.uuid4()}/lake").create_table("db.t", schema=SCHEMA.remove(3), options={})
    for k in range(5):
        table.write(pa.Table.from_pylist([{"k": k}], SCHEMA.remove(3)))
    storage = table._handle.env.storage
    for path in [info.path for info in storage.walk(table.path) if "/data-" in info.path]:
        first = table.to_arrow(["k"], limit=1)["k"].to_pylist() == [0]
        assert first
        # Everything with later rows may be missing.
        if table.files()["file_path"].to_pylist()[0] not in path:
            storage.delete([path])
    assert table.to_arrow(["k"], limit=1)["k"].to_pylist() == [0]
    assert next(iter(table.to_batches(["k"]))).to_pydict() == {"k": [0]}


def test_system_tables_give_their_columns_in_the_requested_order():
    table = make(options={"bucket": "1"}, primary_keys=["k"])
    log = Table(table._handle, table._executor, "audit_log")

    found = log.to_arrow(["address.city", "rowkind", "k"], where="k = 1")
    assert found.schema.names == ["city", "rowkind", "k"]
    assert found.to_pylist() == [{"city": "Ulm", "rowkind": "+I", "k": 1}]
    assert log.to_arrow(["k", "rowkind"]).schema.names == ["k", "rowkind"]
    assert log.to_arrow(["k"]).schema.names == ["k"]
    for columns in (["rowkind", "k", "rowkind"], ["k", "k"]):
        with pytest.raises(InvalidArgumentError, match="would come twice"):
            log.to_arrow(columns)
    snapshots = Table(table._handle, table._executor, "snapshots")
    with pytest.raises(InvalidArgumentError, match="would come twice"):
        snapshots.to_arrow(["snapshot_id", "snapshot_id"])
    with pytest.raises(InvalidArgumentError, match="did you mean 'snapshot_id'"):
        snapshots.to_arrow(["snapshot"])
