"""Writes to chain tables: compactions keep what deletes rows elsewhere, overwritten changes make partitions outdated."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    StorageError,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.table.commit.abort import commit_or_delete
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.read.scan import visible_entries
from tests.support.canonical import rows_of, text_of
from tests.support.chain_tables import BRANCHES, FIELDS, OPTIONS, filled, made, put
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

pytestmark = pytest.mark.java

NAMES = [name for name, _ in FIELDS]


def branch_of(path: str, name: str) -> Table:
    return open_table(path if name == "main" else f"{path}$branch_{name}")


def rows(table: Table, values: list[list[Any]]) -> tuple[pa.Table, list[str]]:
    """Rows of tests, which begin with their kind, as the table has them, and their kinds."""
    schema = pa.schema([table.arrow_schema.field(name) for name in NAMES])
    return pa.Table.from_pylist([dict(zip(NAMES, row[1:], strict=True)) for row in values], schema), [
        row[0] for row in values
    ]


def write(path: str, name: str, values: list[list[Any]], **more: Any) -> Any:
    table = branch_of(path, name)
    data, kinds = rows(table, values)
    return table.write(data, row_kinds=kinds, **more)


def alike(java: JavaPaimon, path: str) -> list[Any]:
    found = sorted(rows_of(open_table(path).to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    return found


def days(path: str, name: str) -> set[str]:
    return set(branch_of(path, name).to_arrow(columns=["dt"])["dt"].to_pylist())


def test_compactions_keep_deletes_of_rows_in_other_partitions(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    write(path, "delta", [["-D", "20250106", 2, 9, "gone too"]])
    expected = alike(paimon2, path)
    assert [row[1] for row in expected if row[0] == "20250106"] == [1, 5]

    for name in ("delta", "snapshot"):
        for _ in range(2):
            branch_of(path, name).compact(full=True)
            assert alike(paimon2, path) == expected
        assert paimon2.call("check", table=path, branch=name)["problems"] == []
        assert branch_of(path, name).verify("rows").status == "sound"
    # The deleted rows themselves are in no read of the branch.
    assert alike(paimon2, path) == expected
    assert sorted(rows_of(branch_of(path, "delta").to_arrow()), key=text_of) == sorted(
        paimon2.read(path, branch="delta"), key=text_of
    )
    paimon2.call("compact", table=path, branch="delta")
    assert alike(paimon2, path) == expected


@pytest.mark.parametrize("seed", seeds(3))
def test_both_engines_do_the_same(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    made_up = random.Random(seed)
    more = {"merge-engine": made_up.choice(["deduplicate", "partial-update"]), "file.format": "parquet"}
    theirs, ours = made(paimon2, tmp_path / "theirs", **more), made(paimon2, tmp_path / "ours", **more)
    kinds = ["+I", "+I", "-D"] if more["merge-engine"] == "deduplicate" else ["+I"]
    refused = 0
    for step in range(14):
        name = made_up.choice(["snapshot", "delta", "delta"] if step < 10 else ["snapshot", "delta", "main"])
        deed = made_up.choice(["write", "write", "overwrite", "compact"])
        found = made_up.sample(range(8), 4)
        day = f"202501{made_up.randrange(1, 7):02d}"
        values = [[made_up.choice(kinds), day, key, step, f"w{step}"] for key in found]
        if deed == "compact":
            branch_of(ours, name).compact(full=True)
            paimon2.call("compact", table=theirs, branch=name)
        else:
            place = {"overwrite": {"dt": day}} if deed == "overwrite" else {}
            try:
                write(ours, name, values, **place)
            except InvalidArgumentError as error:
                assert "no earlier partition is complete" in str(error)
                refused += 1
                continue
            put(paimon2, theirs, name, values, kinds=True, **place)
        assert alike(paimon2, ours) == alike(paimon2, theirs), (step, name, deed)
        for one in ("snapshot", "delta"):
            assert days(ours, one) == days(theirs, one), (step, name, deed)
    assert refused < 6
    for one in ("main", "snapshot", "delta"):
        assert paimon2.call("check", table=ours, branch=one)["problems"] == []


def test_overwritten_changes_make_the_complete_partition_outdated(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    assert days(path, "snapshot") == {"20250101", "20250104"}

    done = write(path, "delta", [["+I", "20250104", 1, 7, "again"]], overwrite={"dt": "20250104"}, commit_user="job")

    assert done.status == "committed"
    assert days(path, "snapshot") == {"20250101"}
    found = [row[1:] for row in alike(paimon2, path) if row[0] == "20250104"]
    assert found == [[0, 1, "a0"], [1, 7, "again"], [2, 3, "c2"], [3, 1, "a3"], [7, 2, "b7"]]
    # The job's second attempt leaves what others have made since.
    write(path, "snapshot", [["+I", "20250104", 1, 1, "made again"]])
    again = write(path, "delta", [["+I", "20250104", 1, 7, "again"]], overwrite={"dt": "20250104"}, commit_user="job")
    assert again.status == "already_done"
    assert days(path, "snapshot") == {"20250101", "20250104"}


def test_a_second_attempt_drops_what_the_first_one_left(
    paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = filled(paimon2, tmp_path / "t")
    values = [["+I", "20250104", 1, 7, "again"]]

    def fail(*_: Any, **__: Any) -> Any:
        raise StorageError("the store is away")

    with monkeypatch.context() as away:
        away.setattr("paimon_engine.table.write.chain_overwrites.commit", fail)
        with pytest.raises(StorageError) as caught:
            write(path, "delta", values, overwrite={"dt": "20250104"}, commit_user="job")
    assert any("branch 'snapshot' still has partitions" in note for note in caught.value.__notes__)
    assert "20250104" in days(path, "snapshot")

    assert write(path, "delta", values, overwrite={"dt": "20250104"}, commit_user="job").status == "already_done"

    assert days(path, "snapshot") == {"20250101"}
    alike(paimon2, path)


def test_an_overwrite_that_would_leave_changes_without_a_beginning_is_refused(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    before = alike(paimon2, path)
    number = branch_of(path, "delta").latest_snapshot_id()

    with pytest.raises(InvalidArgumentError, match="no earlier partition is complete"):
        write(path, "delta", [["+I", "20250101", 1, 7, "x"]], overwrite={"dt": "20250101"})

    assert branch_of(path, "delta").latest_snapshot_id() == number
    assert alike(paimon2, path) == before


def test_complete_partitions_are_dropped_where_changes_have_another_beginning(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    complete = branch_of(path, "snapshot")

    with pytest.raises(InvalidArgumentError, match=r"\{'dt': '20250101'\} of branch 'snapshot' cannot be dropped"):
        complete.drop_partition({"dt": "20250101"})
    with pytest.raises(InvalidArgumentError, match="no earlier partition is complete"):
        complete.drop_partition({"dt": "20250101"}, {"dt": "20250104"})
    assert complete.drop_partition({"dt": "20250104"}).status == "committed"

    found = alike(paimon2, path)
    assert [row[1:] for row in found if row[0] == "20250105"][1] == [1, 5, "e1"]
    assert days(path, "snapshot") == {"20250101"}
    # A day that is complete itself needs no other, whether it has changes or not.
    write(path, "snapshot", [["+I", "20250102", 1, 1, "z"]])
    write(path, "delta", [["+I", "20250102", 2, 2, "z"]])
    assert complete.drop_partition({"dt": "20250101"}).status == "committed"
    found = alike(paimon2, path)
    with pytest.raises(UnsupportedError, match="later partitions are made of the changes in branch 'delta'"):
        branch_of(path, "delta").drop_partition({"dt": "20250105"})
    write(path, "main", [["+I", "20250105", 1, 1, "own"]])
    assert open_table(path).drop_partition({"dt": "20250105"}).status == "committed"
    assert alike(paimon2, path) == found


def test_a_chain_made_here_is_one_for_java(paimon2: JavaPaimon, tmp_path: Path):
    catalog = Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.t", schema=dict(FIELDS), primary_keys=["dt", "k"], partition_keys=["dt"], options=OPTIONS
    )
    for name in BRANCHES.values():
        table.create_branch(name)
    for name in ("main", *BRANCHES.values()):
        branch_of(table.path, name).alter(
            [{"change": "set_option", "key": key, "value": value} for key, value in BRANCHES.items()]
        )

    write(table.path, "snapshot", [["+I", "20250101", key, 1, "a"] for key in range(3)])
    write(table.path, "delta", [["-D", "20250102", 0, 2, "b"], ["+I", "20250102", 1, 2, "b"]])
    write(table.path, "delta", [["+I", "20250103", 5, 3, "c"]], overwrite={})

    found = alike(paimon2, table.path)
    assert [row[1] for row in found if row[0] == "20250103"] == [1, 2, 5]
    assert table.rescale().status == "noop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "-1", "bucket-key": None}, "a fixed number of buckets"),
        ({"sequence.field": None}, "needs a 'sequence.field'"),
        ({"changelog-producer": "lookup"}, "'changelog-producer' = 'none' or 'input'"),
        ({"partition.timestamp-pattern": None}, "'partition.timestamp-pattern'"),
        ({"partition.expiration-time": "7 d", "partition.expiration-strategy": "update-time"}, "'values-time'"),
        ({"chain-table.chain-partition-keys": "k"}, "not the last of the partition keys"),
    ],
)
def test_a_chain_table_that_java_would_refuse_is_refused(options: dict[str, Any], message: str, tmp_path: Path):
    chosen = {key: value for key, value in {**OPTIONS, **options}.items() if value is not None}
    with pytest.raises(InvalidArgumentError, match=message):
        Catalog(str(tmp_path)).create_table(
            "db.t", schema=dict(FIELDS), primary_keys=["dt", "k"], partition_keys=["dt"], options=chosen
        )


def test_a_rescale_keeps_deletes(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    expected = alike(paimon2, path)
    for name in ("main", "snapshot", "delta"):
        branch_of(path, name).alter([{"change": "set_option", "key": "bucket", "value": "3"}])
        if name != "main":
            assert branch_of(path, name).rescale().status == "committed"

    assert alike(paimon2, path) == expected


def test_days_with_another_number_of_buckets_are_merged_by_all_their_rows(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    for name in ("main", "snapshot", "delta"):
        branch_of(path, name).alter([{"change": "set_option", "key": "bucket", "value": "3"}])
    for day in ("20250107", "20250108"):
        write(path, "delta", [["+I", day, key, 9, f"new{key}"] for key in (1, 7, 8)] + [["-D", day, 2, 9, ""]])
    with pytest.raises(Exception, match="Inconsistent bucket num"):
        paimon2.read(path)

    found = sorted(rows_of(open_table(path).to_arrow()), key=text_of)

    last = [[1, 9, "new1"], [5, 6, "f5"], [7, 9, "new7"], [8, 9, "new8"]]
    assert [row[1:] for row in found if row[0] == "20250107"] == last
    assert [row[1:] for row in found if row[0] == "20250108"] == last
    where = "dt = '20250107' AND k = 7"
    assert rows_of(open_table(path).to_arrow(where=where)) == [["20250107", 7, 9, "new7"]]
    assert open_table(path).compact_chain_table({"dt": "20250107"}).rows == 4
    for name in ("snapshot", "delta"):
        branch_of(path, name).rescale()
    assert alike(paimon2, path) == found


# ── compacting the chain ────────────────────────────────────────────────────────────────────────


def test_days_are_made_complete(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    expected = alike(paimon2, path)
    table = open_table(path)

    planned = table.compact_chain_table({"dt": "20250103"}, dry_run=True)
    done = table.compact_chain_table({"dt": "20250103"}, {"dt": "20250106"}, {"dt": "20250104"}, commit_user="job")

    assert (planned.status, planned.partitions, planned.rows) == ("dry_run", ({"dt": "20250103"},), 0)
    assert planned.bytes_read > 0
    assert (done.status, done.rows) == ("committed", 8)
    assert done.partitions == ({"dt": "20250103"}, {"dt": "20250106"})
    assert done.kept == (), "day 4 has no changes"
    assert days(path, "snapshot") == {"20250101", "20250103", "20250104", "20250106"}
    assert alike(paimon2, path) == expected
    again = table.compact_chain_table({"dt": "20250103"}, commit_user="job")
    assert (again.status, again.branch_snapshot_id) == ("already_done", done.branch_snapshot_id)
    kept = table.compact_chain_table({"dt": "20250103"})
    assert (kept.status, kept.kept, kept.branch_snapshot_id) == ("noop", ({"dt": "20250103"},), None)
    assert paimon2.call("check", table=path, branch="snapshot")["problems"] == []


def test_late_changes_are_seen_once_a_day_is_made_again(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    open_table(path).compact_chain_table({"dt": "20250105"})
    write(path, "delta", [["+I", "20250105", 8, 9, "late"]])
    assert 8 not in [row[1] for row in alike(paimon2, path) if row[0] == "20250105"]

    done = open_table(f"{path}$branch_delta").compact_chain_table({"dt": "20250105"}, rebuild=True)

    assert (done.status, done.partitions, done.rows) == ("committed", ({"dt": "20250105"},), 4)
    assert [row[1] for row in alike(paimon2, path) if row[0] == "20250105"] == [0, 1, 2, 8]


def test_other_tables_and_columns_are_refused(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match="k"):
        open_table(path).compact_chain_table({"k": "1"})
    with pytest.raises(InvalidArgumentError, match="name the partitions"):
        open_table(path).compact_chain_table()
    plain = Catalog(str(tmp_path)).create_table("db.plain", schema={"k": "BIGINT"})
    with pytest.raises(UnsupportedError, match="is not a chain table"):
        plain.compact_chain_table({"k": "1"})
    missing = open_table(path).compact_chain_table({"dt": "20991231"})
    assert (missing.status, missing.partitions, missing.kept) == ("noop", (), ())


@pytest.mark.parametrize("deed", ["complete", "overwrite"])
def test_what_others_do_meanwhile_is_not_lost(
    deed: str, paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = filled(paimon2, tmp_path / "t")
    before = alike(paimon2, path)

    def late(*given: Any) -> Any:
        if deed == "complete":
            write(path, "snapshot", [["+I", "20250105", 1, 1, "theirs"]])
        else:
            write(path, "delta", [["+I", "20250105", 1, 1, "theirs"]], overwrite={"dt": "20250105"})
        return commit_or_delete(*given)

    monkeypatch.setattr("paimon_engine.actions.compact_chain_table.commit_or_delete", late)
    with pytest.raises(ConflictError, match="run it again"):
        open_table(path).compact_chain_table({"dt": "20250105"})

    found = alike(paimon2, path)
    ours = [row for row in found if row[0] == "20250105"]
    assert [row[3] for row in ours if row[1] == 1] == ["theirs" if deed == "complete" else "d1"]
    assert [row for row in found if row[0] < "20250105"] == [row for row in before if row[0] < "20250105"]
    assert branch_of(path, "snapshot").verify("rows").status == "sound"


@pytest.mark.parametrize("seed", seeds(3))
def test_random_chains_are_the_same_once_compacted(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    made_up = random.Random(seed)
    path = made(paimon2, tmp_path / "t", partition_keys=("g", "dt"), **{"chain-table.chain-partition-keys": "dt"})
    for step in range(12):
        name = made_up.choice(["snapshot", "delta", "delta"])
        place = [made_up.randrange(2), f"202501{made_up.randrange(1, 8):02d}"]
        values = [
            # Later days have newer versions: a deleted row is not in a complete day, where an older one would return.
            [
                made_up.choice(["+I", "-D"] if name == "delta" else ["+I"]),
                *place,
                key,
                int(place[1]) * 100 + step,
                f"w{step}",
            ]
            for key in made_up.sample(range(9), 5)
        ]
        put(paimon2, path, name, values, kinds=True)
    expected = alike(paimon2, path)
    changed = sorted({(row[0], row[1]) for row in rows_of(branch_of(path, "delta").to_arrow())})

    for _ in range(4):
        group, day = made_up.choice(changed)
        named = made_up.choice([{"g": group, "dt": day}, {"dt": day}, {"g": group}])
        open_table(path).compact_chain_table(named)
        assert alike(paimon2, path) == expected, named


# ── expiry ──────────────────────────────────────────────────────────────────────────────────────

OLD = {"expiration_time": "1 d"}


def test_the_oldest_links_expire_in_both_branches(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    put(paimon2, path, "snapshot", [["20250108", 1, 1, "h1"]])
    put(paimon2, path, "delta", [["20990101", 1, 9, "young"]])
    before = alike(paimon2, path)
    left = [row for row in before if row[0] >= "20250108"]

    planned = open_table(path).expire_partitions(**OLD, dry_run=True)
    limited = open_table(path).expire_partitions(**OLD, max_num=1)

    names = ["20241231", "20250102", "20250103", "20250105", "20250106", "20250101", "20250104"]
    assert (planned.status, [one["dt"] for one in planned.partitions]) == ("dry_run", names)
    assert (limited.status, limited.remaining) == ("committed", 1)
    assert [one["dt"] for one in limited.partitions] == [*names[:3], "20250101"]
    assert alike(paimon2, path) == [row for row in before if row[0] >= "20250104"]

    rest = open_table(f"{path}$branch_delta").expire_partitions(**OLD)

    assert [one["dt"] for one in rest.partitions] == ["20250105", "20250106", "20250104"]
    assert alike(paimon2, path) == left
    assert days(path, "snapshot") == {"20250108"}
    assert open_table(path).expire_partitions(**OLD).status == "noop"
    for name in ("snapshot", "delta"):
        assert paimon2.call("check", table=path, branch=name)["problems"] == []


def test_changes_without_a_complete_partition_stay(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t")
    put(paimon2, path, "delta", [["20250101", 1, 1, "a"]])
    put(paimon2, path, "delta", [["20250102", 2, 1, "b"]])

    assert open_table(path).expire_partitions(**OLD).status == "noop"
    put(paimon2, path, "snapshot", [["20250102", 3, 1, "c"]])

    found = open_table(path).expire_partitions(**OLD)
    assert [one["dt"] for one in found.partitions] == ["20250101"]
    with pytest.raises(UnsupportedError, match="expire by their values"):
        open_table(path).expire_partitions(**OLD, strategy="update-time")


@pytest.mark.parametrize("seed", seeds(4))
def test_what_does_not_expire_reads_as_before(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    made_up = random.Random(seed)
    path = made(paimon2, tmp_path / "t", partition_keys=("g", "dt"), **{"chain-table.chain-partition-keys": "dt"})
    for step in range(14):
        name = made_up.choice(["snapshot", "delta", "delta"])
        place = [made_up.randrange(2), f"{made_up.choice([2025, 2025, 2099])}01{made_up.randrange(1, 8):02d}"]
        values = [
            [made_up.choice(["+I", "-D"] if name == "delta" else ["+I"]), *place, key, step, f"w{step}"]
            for key in made_up.sample(range(9), 5)
        ]
        put(paimon2, path, name, values, kinds=True)
    before = alike(paimon2, path)

    found = open_table(path).expire_partitions(**OLD)

    after = alike(paimon2, path)
    there = {(row[0], row[1]) for row in after}
    assert after == [row for row in before if (row[0], row[1]) in there]
    gone = {(int(one["g"] or 0), one["dt"]) for one in found.partitions}
    assert {(row[0], row[1]) for row in before} - there <= gone
    assert all(str(day).startswith("2025") for _, day in gone)


def test_changes_that_come_late_keep_what_they_change(
    paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = filled(paimon2, tmp_path / "t")
    calls: list[Any] = []

    def late(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            put(paimon2, path, "delta", [["20250102", 1, 50, "late"]])
        return commit(*given)

    monkeypatch.setattr("paimon_engine.actions.drop_partition.commit", late)
    found = open_table(path).expire_partitions(**OLD)

    assert len(calls) > 2, "the plan was made again"
    assert found.status == "committed"
    assert days(path, "snapshot") == {"20250104"}
    assert {row[0] for row in alike(paimon2, path)} == {"20250104", "20250105", "20250106"}


@pytest.mark.parametrize("deed", ["read", "compact"])
def test_what_is_compacted_and_expires_between_two_looks_is_not_missed(
    deed: str, paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The changes of day 2 are in the complete day 3 by then, which the first look has not seen."""
    path = made(paimon2, tmp_path / "t")
    put(paimon2, path, "snapshot", [["20250101", 1, 1, "a1"]])
    for number, day in enumerate(("20250102", "20250103", "20250105")):
        put(paimon2, path, "delta", [[day, number + 2, 1, day]])
    expected = [row for row in alike(paimon2, path) if row[0] == "20250105"]
    looks: list[str] = []

    def late(table: Any, *given: Any, **more: Any) -> Any:
        looks.append(table.paths.branch)
        found = visible_entries(table, *given, **more)
        if looks.count("snapshot") == 1 and looks[-1] == "snapshot":
            monkeypatch.undo()
            open_table(path).compact_chain_table({"dt": "20250103"})
            assert len(open_table(path).expire_partitions(**OLD).partitions) == 2
            monkeypatch.setattr("paimon_engine.table.read.chain_table.visible_entries", late)
        return found

    monkeypatch.setattr("paimon_engine.table.read.chain_table.visible_entries", late)
    if deed == "compact":
        assert open_table(path).compact_chain_table({"dt": "20250105"}).rows == 4
    found = open_table(path).to_arrow(where="dt = '20250105'")

    assert sorted(rows_of(found), key=text_of) == expected
    assert looks.count("snapshot") > 1, "others came in between"
