"""Updates of some columns: every other value stays, and no update of others is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, InvalidArgumentError, SetOption, Table, UnsupportedError, open_table
from paimon_engine.meta.schema import ROW_ID
from paimon_engine.table.commit.abort import commit_or_delete

COMMIT = "paimon_engine.actions.update_columns.commit_or_delete"
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("c", pa.list_(pa.int32())),
        ("p", pa.string()),
    ]
)


def rows(keys: range, partition: str = "x") -> pa.Table:
    values = [{"k": key, "a": key, "b": f"b{key}", "c": [key, None], "p": partition} for key in keys]
    return pa.Table.from_pylist(values, SCHEMA)


def created(path: Path, *, partitioned: bool = False, **options: str) -> Table:
    """40 rows in four files; where partitioned, of two partitions."""
    keys = ["p"] if partitioned else []
    made = Catalog(str(path)).create_table("db.t", schema=SCHEMA, partition_keys=keys, options={**OPTIONS, **options})
    for step in range(4):
        made.write(rows(range(step * 10, step * 10 + 10), "xy"[step % 2]))
    return made


def tracked(table: Table) -> dict[int, dict[str, Any]]:
    """All rows by their id."""
    found = open_table(f"{table.path}$row_tracking").to_arrow().to_pylist()
    return {row.pop(ROW_ID): row for row in found}


def values(table: Table) -> dict[int, dict[str, Any]]:
    return {number: {name: row[name] for name in SCHEMA.names} for number, row in tracked(table).items()}


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_named_rows_get_the_values_and_others_keep_theirs(tmp_path: Path, file_format: str, partitioned: bool):
    table = created(tmp_path, partitioned=partitioned, **{"file.format": file_format})
    expected = values(table)
    new = {33: ([1], "n33"), 7: (None, "n7"), 2: ([], None)}

    done = table.update_columns(
        pa.table(
            {
                "c": pa.array([one[0] for one in new.values()], pa.list_(pa.int32())),
                ROW_ID: list(new),
                "b": [one[1] for one in new.values()],
            }
        )
    )

    for number, (c, b) in new.items():
        expected[number] |= {"c": c, "b": b}
    assert values(table) == expected
    assert (done.status, done.rows, done.files, done.conflicts) == ("committed", 3, 2, 0)
    assert done.snapshot_id == table.latest_snapshot_id() == 5
    assert table.to_arrow(where="b = 'n33'")["k"].to_pylist() == [expected[33]["k"]]
    assert table.to_arrow(where="b = 'b33'").num_rows == 0
    assert table.verify("rows").problems == ()
    assert table.to_arrow(snapshot=4).sort_by("k") == pa.concat_tables(
        rows(range(step * 10, step * 10 + 10), "xy"[step % 2]) for step in range(4)
    )


def test_whole_ranges_are_written_without_reading(tmp_path: Path):
    table = created(tmp_path)
    ids = list(range(40))
    random.Random(3).shuffle(ids)

    done = table.update_columns(pa.table({ROW_ID: ids, "a": pa.array([number * 2 for number in ids], pa.int64())}))

    assert done.files == 4
    assert {number: row["a"] for number, row in values(table).items()} == {n: n * 2 for n in range(40)}


def test_random_updates_compactions_and_new_columns(tmp_path: Path):
    chance = random.Random(11)
    table = created(tmp_path)
    expected = values(table)
    for step in range(25):
        what = chance.choice(["update", "update", "update", "write", "compact"])
        if what == "write":
            table.write(rows(range(100 * step, 100 * step + 3)))
            fresh = values(table)
            assert {number: fresh[number] for number in expected} == expected
            expected = fresh
        elif what == "compact":
            table.compact(full=True)
        else:
            names = chance.sample(["k", "a", "b", "c", "p"], chance.randrange(1, 4))
            chosen = chance.sample(sorted(expected), chance.randrange(1, len(expected)))
            for number in chosen:
                expected[number] |= {name: rows(range(step, step + 1))[name][0].as_py() for name in names}
            columns = {name: pa.array([expected[n][name] for n in chosen], SCHEMA.field(name).type) for name in names}
            table.update_columns(pa.table({ROW_ID: chosen, **columns}))
        assert values(table) == expected, (step, what)
    assert table.verify("rows").problems == ()


def test_file_indexes_are_of_the_updated_columns_alone(tmp_path: Path):
    table = created(tmp_path, **{"file-index.bloom-filter.columns": "b,k", "file-index.in-manifest-threshold": "1 b"})

    table.update_columns(pa.table({ROW_ID: [3, 14], "b": ["new", "new"]}))

    assert sorted(table.to_arrow(where="b = 'new'")["k"].to_pylist()) == [3, 14]
    assert table.to_arrow(where="b = 'b3'").num_rows == 0
    assert table.to_arrow(where="k = 3")["b"].to_pylist() == ["new"]


def test_large_ranges_come_into_one_file(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options=OPTIONS)
    table.write(rows(range(300_000)))
    table.alter([SetOption("target-file-size", "100 kb")])
    table = open_table(table.path)

    done = table.update_columns(pa.table({ROW_ID: [5, 299_999], "b": ["x", "y"]}))

    assert done.files == 1
    assert table.to_arrow(where="b IN ('x', 'y')")["k"].to_pylist() == [5, 299_999]
    assert table.to_arrow(where="k = 150000")["b"].to_pylist() == ["b150000"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": [1]}, "lack the column _ROW_ID"),
        ({ROW_ID: [1]}, "no column but _ROW_ID"),
        ({ROW_ID: [1], "z": [1]}, "no column 'z'"),
        ({ROW_ID: [1, 1, 2, 2], "a": [1, 2, 3, 4]}, "_ROW_ID 1, 2: new values come more than once"),
        ({ROW_ID: [39, 40, -1], "a": [1, 2, 3]}, "no row with the _ROW_ID -1, 40"),
        ({ROW_ID: ["1"], "a": [1]}, "must have integers, not string"),
        ({ROW_ID: pa.array([1, None]), "a": [1, 2]}, "_ROW_ID has 1 nulls"),
        ({ROW_ID: [1], "a": ["x"]}, "column 'a' of type string does not fit"),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path: Path, given: dict[str, Any], message: str):
    table = created(tmp_path)

    with pytest.raises(InvalidArgumentError, match=message):
        table.update_columns(pa.table(given))

    assert table.latest_snapshot_id() == 4


def test_columns_that_place_rows_stay(tmp_path: Path):
    table = created(tmp_path, partitioned=True)

    with pytest.raises(InvalidArgumentError, match="column 'p' is a partition column"):
        table.update_columns(pa.table({ROW_ID: [1], "p": ["y"]}))


def test_tables_without_data_evolution_are_refused(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options={"row-tracking.enabled": "true"})

    with pytest.raises(UnsupportedError, match=r"'data-evolution\.enabled' = 'true'"):
        table.update_columns(pa.table({ROW_ID: [1], "a": [1]}))


def test_no_rows_are_no_commit(tmp_path: Path):
    table = created(tmp_path)

    assert (
        table.update_columns(pa.table({ROW_ID: pa.array([], pa.int64()), "a": pa.array([], pa.int32())})).status
        == "noop"
    )
    assert table.latest_snapshot_id() == 4


def test_an_update_is_done_once(tmp_path: Path):
    table = created(tmp_path)
    new = pa.table({ROW_ID: [1], "a": pa.array([5], pa.int32())})
    # Another commit of the same user is no update.
    table.write(rows(range(50, 51)), commit_user="nightly")

    first = table.update_columns(new, commit_user="nightly")
    second = table.update_columns(new, commit_user="nightly")

    assert (first.status, second.status) == ("committed", "already_done")
    assert first.snapshot_id == second.snapshot_id == table.latest_snapshot_id()


# ── others meanwhile ────────────────────────────────────────────────────────────────────────────


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any, times: int = 1) -> None:
    """Has `act` done between the writing of the files and the commit, in the first rounds."""
    left = [times]

    def late(*given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            with monkeypatch.context() as others:
                others.setattr(COMMIT, commit_or_delete)
                act()
        return commit_or_delete(*given)

    monkeypatch.setattr(COMMIT, late)


def a_of(numbers: list[int], value: int) -> pa.Table:
    return pa.table({ROW_ID: numbers, "a": pa.array([value] * len(numbers), pa.int32())})


def test_an_update_of_the_same_column_by_others_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = created(tmp_path)
    other = open_table(table.path)
    meanwhile(monkeypatch, lambda: other.update_columns(a_of([2], 200)))

    done = table.update_columns(a_of([1], 100))

    found = values(table)
    assert (found[1]["a"], found[2]["a"], done.conflicts) == (100, 200, 1)


def test_updates_of_other_columns_and_rows_do_not_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = created(tmp_path)
    other = open_table(table.path)

    def act() -> None:
        other.update_columns(pa.table({ROW_ID: [1], "b": ["other"]}))
        other.update_columns(a_of([30], 300))
        other.write(rows(range(70, 80)))

    meanwhile(monkeypatch, act)

    done = table.update_columns(a_of([1], 100))

    found = values(table)
    assert (found[1]["a"], found[1]["b"], found[30]["a"], done.conflicts) == (100, "other", 300, 0)
    assert len(found) == 50


def test_an_update_meets_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = created(tmp_path)
    expected = values(table)
    meanwhile(monkeypatch, lambda: open_table(table.path).compact(full=True))

    done = table.update_columns(a_of([1, 33], 100))

    expected[1]["a"] = expected[33]["a"] = 100
    assert values(table) == expected
    assert (done.conflicts, done.files) == (1, 1)


def test_rows_that_others_replaced_are_not_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = created(tmp_path)
    meanwhile(monkeypatch, lambda: open_table(table.path).write(rows(range(3)), overwrite={}))

    with pytest.raises(InvalidArgumentError, match="no row with the _ROW_ID 1"):
        table.update_columns(a_of([1], 100))

    assert table.to_arrow()["a"].to_pylist() == [0, 1, 2]
    assert table.verify("rows").problems == ()


def test_who_always_comes_late_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = created(tmp_path)
    meanwhile(monkeypatch, lambda: open_table(table.path).update_columns(a_of([2], 7)), 9)

    with pytest.raises(ConflictError, match="others changed the same rows in 4 rounds"):
        table.update_columns(a_of([1], 100))

    assert values(table)[1]["a"] == 1


def test_many_updates_at_once_lose_nothing(tmp_path: Path):
    table = created(tmp_path)
    failed: list[BaseException] = []

    def work(part: int) -> None:
        mine = open_table(table.path)
        for number in range(part, 20, 4):
            for _ in range(50):
                try:
                    mine.update_columns(a_of([number], 1000 + number))
                    break
                except ConflictError:
                    continue
                except BaseException as error:
                    failed.append(error)
                    raise

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failed
    assert [values(table)[number]["a"] for number in range(20)] == [1000 + number for number in range(20)]
