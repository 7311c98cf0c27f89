"""A footer that was changed is an error of ours, or no error; it does not end the process.

pyarrow ends it for what it does not expect in the description of a column chunk of Parquet, such as a codec that there
is not, and in the types of ORC.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine.format import orc, parquet
from paimon_engine.format.layout import WriteOptions
from tests.hostile.flipped_footers import DONE
from tests.support.corpus import case

ROWS = 40
COLUMNS = pa.table(
    {
        "k": pa.array(range(ROWS), pa.int64()),
        "s": [f"text {number % 7}" for number in range(ROWS)],
        "x": [number / 3 for number in range(ROWS)],
        "d": pa.array([number * 7 for number in range(ROWS)], pa.int32()).cast(pa.decimal128(12, 2)),
        "l": [[number] * (number % 3) for number in range(ROWS)],
    }
)


def wrong(file: Path, how: str) -> list[str]:
    """The errors that are none of ours, or the case that ended the process."""
    command = [sys.executable, "-m", "tests.hostile.flipped_footers", str(file), how]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    if ended.returncode or lines[-1:] != [DONE]:
        return [f"{lines[-1] if lines else 'nothing'} ended the process: {ended.stderr[-2000:]}"]
    return [line for line in lines[:-1] if ": " in line]


@pytest.mark.slow
@pytest.mark.parametrize("writer_of", [parquet.ParquetWriter, orc.OrcWriter], ids=["parquet", "orc"])
def test_each_bit_of_a_footer_of_ours(writer_of: type[parquet.ParquetWriter | orc.OrcWriter], tmp_path: Path) -> None:
    file = tmp_path / f"data.{'orc' if writer_of is orc.OrcWriter else 'parquet'}"
    with file.open("wb") as sink:
        writer = writer_of(sink, COLUMNS.schema, WriteOptions())
        for batch in COLUMNS.to_batches():
            writer.write(batch)
        writer.close()

    assert wrong(file, "bits") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["types_parquet_append", "types_parquet_deep", "agg_collect_merge_map", "types_orc_append", "types_orc_pk"]
)
def test_bytes_of_footers_of_java(name: str) -> None:
    file = min(case(name).table.rglob("data-*.*"))

    assert wrong(file, "bytes") == []
