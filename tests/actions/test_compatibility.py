"""The report on engines: from metadata of the latest snapshot alone. `interop/test_reader_facts` tries the engines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, RemoveOption, SetOption, Table, open_table

ROWS = pa.table({"id": [1, 2], "v": [1, 2]}).cast(
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
)


def created(folder: Path, **options: str) -> Table:
    found = Catalog(str(folder)).create_table(
        "db.t", schema=ROWS.schema, primary_keys=["id"], options={"bucket": "1", **options}
    )
    found.write(ROWS)
    return found


def test_a_plain_table_is_read_by_all(tmp_path: Path):
    report = created(tmp_path).compatibility()

    assert report.status == "compatible"
    assert {one.reads for one in report.engines} == {"right"}
    assert "Java Paimon 0.9.0" in [one.engine for one in report.engines]


def test_what_limits_a_table_is_named_with_the_way_out(tmp_path: Path):
    table = created(tmp_path, **{"data-file.thin-mode": "true", "manifest.format": "orc"})

    report = table.compatibility()

    reads = {one.engine: one.reads for one in report.engines}
    assert (report.status, report.snapshot_id) == ("limited", 1)
    assert reads["Java Paimon 0.9.0"] == reads["pypaimon 2.1.0"] == "fails"
    assert reads["Java Paimon 2.0.0"] == "right"
    old = next(one for one in report.engines if one.engine == "Java Paimon 0.9.0")
    assert "data-file.thin-mode" in old.reasons[0].what
    assert "full compaction" in old.reasons[0].change


@pytest.mark.parametrize("option", ["data-file.thin-mode", "metadata.stats-dense-store"])
def test_the_way_out_leads_out(option: str, tmp_path: Path):
    table = created(tmp_path, **{option: "true", "fields.v.stats-mode": "none"})
    assert table.compatibility().status == "limited"

    table.alter([SetOption(option, "false"), RemoveOption("fields.v.stats-mode")])
    table = open_table(table.path)
    table.write(ROWS)
    table.compact(full=True)

    assert table.compatibility().status == "compatible"
