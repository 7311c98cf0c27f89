"""Texts of options that Java cannot parse: refused when they are to be stored, read where they are stored already."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption, Table, open_table
from paimon_engine.options.kinds import PARSERS
from paimon_engine.options.known import KNOWN_OPTIONS
from paimon_engine.options.names import is_known
from paimon_engine.options.older_names import OLDER_NAMES
from tests.support.stored_options import with_stored_options

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.int32())])
REFUSED = [
    ("snapshot.time-retained", "PT1H", r"'PT1H' is not a duration that Java reads; write '1 h'"),
    ("snapshot.time-retained", "P1DT1.5S", r"write '86401500 ms'"),
    ("snapshot.time-retained", "3 us", r"'3 us' is not a duration that Java reads; write e\.g\. '1 h'"),
    ("snapshot.time-retained", "9223372036854775807 d", "is not a duration that Java reads; write e"),
    ("snapshot.time-retained", "9" * 5000, r"write e\.g\. '1 h', '10 s' or '7 d'$"),
    ("snapshot.time-retained", "\u0661 h", "write '1 h'"),
    ("record-level.expire-time", "PT1H", "write '1 h'"),
    ("compaction.optimization-interval", "pt30m", "write '30 min'"),
    ("target-file-size", "99999999999999999999 tb", "is not a size that Java reads"),
    ("compaction.total-size-threshold", "abc", r"option 'compaction\.total-size-threshold': 'abc' is not a size"),
    ("compaction.incremental-size-threshold", "abc", "'abc' is not a size"),
    ("compaction.delete-ratio-threshold", "1_0", r"'1_0' is not a number; write e\.g\. 0\.5"),
    ("compaction.delete-ratio-threshold", "nan", "'nan' is not a number"),
    ("compaction.small-file-ratio", "Infinity", "'Infinity' is not a number"),
    ("compaction.small-file-ratio", "1e999", "'1e999' is not a number"),
    ("read.batch-size", "abc", "'abc' is not an integer"),
    ("partition.expiration-max-num", "abc", r"option 'partition\.expiration-max-num' = 'abc' is not an integer"),
    ("metadata.iceberg.compaction.max.file-num", "many", "'many' is not an integer"),
    *((name, "maybe", f"option '{name}' = 'maybe' is neither true nor false") for name in (
        "add-column-before-partition",
        "alter-column-null-to-not-null.disabled",
        "compaction.force-up-level-0",
        "deletion-vectors.modifiable",
        "disable-explicit-type-casting",
        "lookup-wait",
        "metadata.iceberg-compatible",
        "metastore.partitioned-table",
        "streaming-read-overwrite",
        "visibility-callback.enabled",
        "write-only",
        "write.compaction-skip",
    )),
]  # fmt: skip


def created(folder: Path, options: dict[str, str] | None = None) -> Table:
    given = {"bucket": "1", **(options or {})}
    return Catalog(str(folder)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)


def write(table: Table) -> None:
    table.write(pa.table({"k": [1], "v": [1]}, schema=SCHEMA))


def test_the_options_whose_kind_is_known_are_options_of_java():
    unknown = PARSERS.keys() - KNOWN_OPTIONS

    assert all(name.startswith("metadata.iceberg.") and is_known(name) for name in unknown)
    assert not PARSERS.keys() & OLDER_NAMES.keys() - {"delete-file.thread-num"}
    assert len(PARSERS) > 220


@pytest.mark.parametrize(("name", "text", "message"), REFUSED, ids=lambda text: text[:40])
def test_a_text_that_java_cannot_parse_is_not_stored(tmp_path: Path, name: str, text: str, message: str):
    options = {"record-level.time-field": "v"} if name == "record-level.expire-time" else {}
    with pytest.raises(InvalidArgumentError, match=message):
        created(tmp_path, {**options, name: text})
    table = created(tmp_path, options)
    with pytest.raises(InvalidArgumentError, match=message):
        table.alter([SetOption(name, text)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("snapshot.time-retained", " 1 H "),
        ("snapshot.time-retained", "3 µs"),
        ("snapshot.time-retained", "3600000"),
        ("target-file-size", "128MB"),
        ("target-file-size", "8388607 tb"),
        ("compaction.small-file-ratio", " .5e0 "),
        ("write-only", "TRUE"),
        ("scan.timestamp-millis", "1"),
    ],
)
def test_a_text_that_java_parses_is_stored(tmp_path: Path, name: str, text: str):
    assert created(tmp_path, {name: text}).schema.options[name] == text


def test_a_table_that_stores_such_a_text_is_read_written_and_altered(tmp_path: Path):
    table = with_stored_options(
        created(tmp_path), {"snapshot.time-retained": "PT1H", "write-only": "maybe", "read.batch-size": "x"}
    )
    write(table)
    table.alter([SetOption("owner", "me")])

    table = open_table(table.path)
    assert table.to_arrow().num_rows == 1
    assert table.expire_snapshots().status == "noop"
    with pytest.raises(InvalidArgumentError, match="write '2 h'"):
        table.alter([SetOption("snapshot.time-retained", "PT2H")])


def test_what_a_caller_gives_may_still_be_an_iso_duration(tmp_path: Path):
    table = created(tmp_path)
    write(table)

    assert open_table(table.path, options={"snapshot.time-retained": "PT1H"}).expire_snapshots().status == "noop"
    assert table.create_tag("kept", time_retained="PT1H").status == "created"


def test_numbers_that_are_not_finite_do_not_stop_a_compaction_without_a_word(tmp_path: Path):
    table = with_stored_options(created(tmp_path), {"compaction.small-file-ratio": "NaN"})
    write(table)

    assert table.to_arrow().num_rows == 1
    with pytest.raises(InvalidArgumentError, match=r"option 'compaction\.small-file-ratio' = 'NaN' is not a number"):
        table.compact(full=True)
