"""Every option that Java Paimon knows, from 0.9 to its newest sources: done, harmless here, or refused by name.

`known_options.json` is the list; where an option is harmless, it says why.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_engine
from paimon_engine import Catalog, UnsupportedError, open_table
from paimon_engine.options import TableOptions
from paimon_engine.options.known import KNOWN_OPTIONS, is_known_option
from paimon_engine.supported import check_readable, check_writable
from tests.meta.option_list import HARMLESS, KNOWN, REFUSED, named


def test_each_option_is_of_one_kind():
    kinds = [KNOWN["implemented"], list(HARMLESS), *map(list, REFUSED.values()), list(KNOWN["refused elsewhere"])]
    options = [option for kind in kinds for option in kind]

    assert len(options) == len(set(options))
    assert len(options) > 350
    assert all(len(reason) > 20 for reason in HARMLESS.values())


def test_the_engine_knows_their_names():
    options = {*KNOWN["implemented"], *HARMLESS, *(name for kind in REFUSED.values() for name in kind)}
    options |= set(KNOWN["refused elsewhere"])

    assert {name for name in options if "<" not in name and "#" not in name} == KNOWN_OPTIONS
    assert all(is_known_option(name.replace("<column>", "v")) for name in options if "#" not in name)
    assert not is_known_option("buckt")
    assert not is_known_option("api_key")


def test_each_supported_option_is_used_in_the_engine():
    folder = Path(paimon_engine.__file__).parent
    source = "\n".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py") if file.name != "known.py")

    missing = [option for option in KNOWN["implemented"] if option.rpartition("<column>.")[2] not in source]
    assert missing == []


@pytest.mark.parametrize(("option", "value"), REFUSED["reading"].items())
def test_what_would_change_the_rows_of_a_read_is_refused(option: str, value: str):
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedError, match=f"'{named(option)}'"):
            check(TableOptions({named(option): value}))


@pytest.mark.parametrize(("option", "value"), REFUSED["writing"].items())
def test_what_a_write_would_leave_undone_is_refused(option: str, value: str):
    options = TableOptions({named(option): value})

    check_readable(options)
    with pytest.raises(UnsupportedError, match=f"'{named(option)}'"):
        check_writable(options)


@pytest.mark.parametrize("value", ["false", "FALSE"])
def test_switches_that_are_off_are_not_refused(value: str):
    switches = {named(option): value for kind in REFUSED.values() for option, on in kind.items() if on == "true"}

    check_writable(TableOptions(switches))


def test_harmless_options_are_not_refused():
    check_writable(TableOptions({named(option): "1" for option in HARMLESS}))


def test_options_outside_of_the_core_are_refused_too():
    for option, value in {"log.system": "kafka"}.items():
        with pytest.raises(UnsupportedError, match=f"'{option}' = '{value}'"):
            check_writable(TableOptions({option: value}))
    check_writable(TableOptions({"metadata.iceberg.storage": "disabled", "log.system": "none"}))


def test_tables_of_other_kinds_are_refused():
    for kind in ("format-table", "object-table", "iceberg-table"):
        with pytest.raises(UnsupportedError, match=f"'type' = '{kind}'"):
            check_readable(TableOptions({"type": kind}))
    for kind in ("table", "TABLE", "materialized-table"):
        check_readable(TableOptions({"type": kind}))


def test_postponed_rows_get_no_bucket_at_once():
    with pytest.raises(UnsupportedError, match="wait for a compaction"):
        check_writable(TableOptions({"bucket": "-2", "postpone.batch-write-fixed-bucket": "true"}))
    check_writable(TableOptions({"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}))
    check_writable(TableOptions({"bucket": "4", "postpone.batch-write-fixed-bucket": "true"}))


def test_forced_lookups_and_the_changelog_of_full_compactions_are_allowed_together_where_one_row_is_kept():
    options = {"force-lookup": "true", "changelog-producer": "full-compaction"}
    for engine in ("partial-update", "aggregation"):
        with pytest.raises(UnsupportedError, match="'force-lookup' together with .* choose 'lookup'"):
            check_writable(TableOptions({**options, "merge-engine": engine}))
        check_writable(TableOptions({**options, "merge-engine": engine, "changelog-producer": "lookup"}))
    check_writable(TableOptions({**options, "merge-engine": "deduplicate"}))


def test_logs_of_changes_with_sequence_numbers_are_refused(tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False)])
    options = {"table-read.sequence-number.enabled": "true"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": [1]}, schema))

    assert table.to_arrow().num_rows == 1
    for name in ("audit_log", "binlog"):
        with pytest.raises(UnsupportedError, match="sequence-number"):
            open_table(f"{table.path}${name}").to_arrow()
