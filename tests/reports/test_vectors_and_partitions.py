"""apache/paimon#8778, #8204, #9277 and #6439: deletion vectors of files that are gone, and partitions that expire."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog, Table, open_table
from tests.reports.replay import keys_of

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("u", pa.int64())])
VECTORS = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}


def made(folder: Path, **options: str) -> Table:
    return Catalog(str(folder)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={**VECTORS, **options})


def write(table: Table, keys: range, *, u: int = 0, kind: str = "+I") -> None:
    count = len(keys)
    rows = pa.table({"k": [*keys], "v": [*keys], "u": [u] * count}, schema=SCHEMA)
    table.write(rows, row_kinds=[kind] * count)


def test_vectors_of_files_that_java_has_replaced_do_no_harm(tmp_path: Path) -> None:
    """#8778: a full compaction of Java 1.4 left the vectors of files that it had rewritten."""
    table = made(tmp_path)
    write(table, range(1_000))
    table.compact(full=True)
    write(table, range(3), kind="-D")
    table.compact()
    stale = snapshot_of(table)["indexManifest"]
    write(table, range(5_000, 5_003))
    table.compact(full=True)
    described = snapshot_of(table)
    assert described.get("indexManifest") is None
    path_of(table).write_text(json.dumps({**described, "indexManifest": stale}), "utf-8")

    table = open_table(table.path)
    assert keys_of(table) == [*range(3, 1_000), *range(5_000, 5_003)]
    write(table, range(10), kind="-D")
    table.compact()
    assert keys_of(table) == [*range(10, 1_000), *range(5_000, 5_003)]
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)

    assert keys_of(table) == [*range(10, 1_000), *range(5_000, 5_003)]
    assert table.verify(depth="rows").problems == ()


def path_of(table: Table) -> Path:
    return Path(table.path, "snapshot", f"snapshot-{table.latest_snapshot_id()}")


def snapshot_of(table: Table) -> dict[str, str]:
    found: dict[str, str] = json.loads(path_of(table).read_text("utf-8"))
    return found


def test_a_row_that_comes_again_after_its_delete_is_in_the_changelog(tmp_path: Path) -> None:
    """#8204: the deleted row was taken for the one before, so that a row with equal values was no change."""
    compared = {"row-deduplicate": "true", "row-deduplicate-ignore-fields": "u"}
    table = made(
        tmp_path,
        **{"changelog-producer": "lookup"},
        **{f"changelog-producer.{name}": value for name, value in compared.items()},
    )
    write(table, range(1_000))
    table.compact(full=True)
    write(table, range(1), kind="-D")
    table.compact()
    write(table, range(1), u=1)
    table.compact()

    log = open_table(f"{table.path}$audit_log")
    latest = table.latest_snapshot_id()
    assert latest is not None
    changes = [log.to_arrow(incremental=(number - 1, number)).to_pylist() for number in range(3, latest + 1)]

    assert [row for rows in changes for row in rows] == [
        {"rowkind": "-D", "k": 0, "v": 0, "u": 0},
        {"rowkind": "+I", "k": 0, "v": 0, "u": 1},
    ]


def test_a_comma_in_a_partition_moves_no_value_to_another_column(tmp_path: Path) -> None:
    """#9277: values were joined by commas and taken apart again, so that other partitions were dropped."""
    days, regions = ["2020-01-01", "2020-01-01", "2999-01-01"], ["a,b", "a", "a,b"]
    rows = pa.table({"day": days, "region": regions, "k": [1, 2, 3]})
    schema = pa.schema([pa.field(field.name, field.type, nullable=False) for field in rows.schema])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, partition_keys=["day", "region"])
    table.write(rows)

    done = table.expire_partitions(expiration_time="10 d", timestamp_pattern="$day", timestamp_formatter="yyyy-MM-dd")

    assert sorted(one["region"] for one in done.partitions) == ["a", "a,b"]
    assert keys_of(table) == [3]


def test_partitions_of_dates_expire(tmp_path: Path) -> None:
    """#6439: days of type DATE were numbers to the expiry, which is why none of them expired."""
    days = [date(2020, 1, 1), date.today() + timedelta(days=1)]
    rows = pa.table({"day": days, "k": [1, 2]})
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, partition_keys=["day"])
    table.write(rows)

    table.expire_partitions(expiration_time="10 d", timestamp_pattern="$day", timestamp_formatter="yyyy-MM-dd")

    assert keys_of(table) == [2]
