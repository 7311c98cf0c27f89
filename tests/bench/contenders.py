"""The steps that `python -m tests.bench` measures, by this engine and by pyarrow: each runs alone in its process.

python -m tests.bench.contenders WHO STEP WAREHOUSE
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench import lineitems
from tests.bench.plain_merge import plain_merge

A_ROW: Final = "a row"
"""The step of a whole process, which is no part of the reads."""

Act = Callable[[], Any]
Prepare = Callable[[str], Act]


def _files(warehouse: str, name: str) -> list[str]:
    return sorted(map(str, Path(f"{warehouse}/db.db/{name}").rglob("bucket-*/*.parquet")))


# ── this engine ─────────────────────────────────────────────────────────────────────────────────


def _read(name: str, columns: list[str] | None = None, share: float | None = None) -> Prepare:
    """A read of all rows, or of a share of the keys; a share of 0 is one key."""

    def prepared(warehouse: str) -> Act:
        from paimon_engine import open_table

        table = open_table(f"{warehouse}/db.db/{name}")
        where = None if share is None else "l_orderkey >= {} and l_orderkey <= {}".format(*_range(warehouse, share))
        return lambda: table.to_arrow(columns=columns, where=where)

    return prepared


def _stream(name: str) -> Prepare:
    """A read of all rows, of which a batch at a time is in memory."""

    def prepared(warehouse: str) -> Act:
        from paimon_engine import open_table

        table = open_table(f"{warehouse}/db.db/{name}")
        return lambda: sum(batch.num_rows for batch in table.to_batches())

    return prepared


def _range(warehouse: str, share: float) -> tuple[int, int]:
    """The first and last order of so large a share of all, in the middle of them: numbers reach that of the rows."""
    last = sum(pq.read_metadata(path).num_rows for path in _files(warehouse, "compacted"))
    middle = last // 2 // lineitems.ORDERS_APART * lineitems.ORDERS_APART + 1
    return middle, middle + int(last * share)


def _write(data: str, *, keyed: bool, buckets: int = 1) -> Prepare:
    def prepared(warehouse: str) -> Act:
        rows, folder = lineitems.stored(warehouse, data), tempfile.TemporaryDirectory(dir=warehouse)
        lineitems.new_table(folder.name, "warm", keyed=keyed).write(rows.slice(0, 10))
        table = lineitems.new_table(folder.name, "t", keyed=keyed, buckets=buckets)

        def act() -> None:
            table.write(rows)
            folder.cleanup()

        return act

    return prepared


# ── pyarrow ─────────────────────────────────────────────────────────────────────────────────────


def _decode(name: str, columns: list[str] | None = None) -> Prepare:
    """All data files of the table as one table, without a merge."""

    def prepared(warehouse: str) -> Act:
        files, names = _files(warehouse, name), columns or lineitems.SCHEMA.names
        return lambda: pa.concat_tables([pq.read_table(file, columns=names, partitioning=None) for file in files])

    return prepared


def _decode_in_turn(name: str) -> Prepare:
    """All data files of the table, of which a batch at a time is in memory, without a merge."""

    def prepared(warehouse: str) -> Act:
        opened = [pq.ParquetFile(file) for file in _files(warehouse, name)]
        return lambda: sum(
            batch.num_rows for file in opened for batch in file.iter_batches(columns=lineitems.SCHEMA.names)
        )

    return prepared


def _by_libraries(name: str) -> Prepare:
    """All rows of the newest snapshot as Arrow and fastavro alone decode them: no merge, no check, no order of runs."""

    def records(path: str) -> list[Any]:
        with open(path, "rb") as stream:
            return list(fastavro.reader(stream))

    def prepared(warehouse: str) -> Act:
        root = Path(f"{warehouse}/db.db/{name}")

        def act() -> pa.Table:
            snapshot = json.loads((root / f"snapshot/snapshot-{(root / 'snapshot/LATEST').read_text()}").read_bytes())
            lists = (snapshot["baseManifestList"], snapshot["deltaManifestList"])
            manifests = [one["_FILE_NAME"] for path in lists for one in records(f"{root}/manifest/{path}")]
            files = [one["_FILE"]["_FILE_NAME"] for path in manifests for one in records(f"{root}/manifest/{path}")]
            return pa.concat_tables(
                [pq.ParquetFile(f"{root}/bucket-0/{file}").read(use_threads=False) for file in files]
            )

        return act

    return prepared


def _merge_plainly(warehouse: str) -> Act:
    """All rows of eight runs, merged by Arrow and NumPy alone, of which a batch at a time is in memory."""
    files = sorted(map(Path, _files(warehouse, "runs")), key=lambda file: file.stat().st_mtime)
    return lambda: sum(batch.num_rows for batch in plain_merge(files, lineitems.SCHEMA.names))


def _encode(warehouse: str) -> Act:
    """A Parquet file with the settings of the engine's own: row groups, checksums, and of each column codec and dictionary."""
    rows = lineitems.stored(warehouse, "ordered")
    with tempfile.TemporaryDirectory(dir=warehouse) as folder:
        lineitems.new_table(folder, "t", keyed=False).write(rows.slice(0, 1 << 18))
        group = pq.read_metadata(_files(folder, "t")[0]).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    codecs = {one.path_in_schema: one.compression.lower().replace("uncompressed", "none") for one in chunks}
    with_dictionary = [one.path_in_schema for one in chunks if one.has_dictionary_page]

    def act() -> None:
        with tempfile.TemporaryFile(dir=warehouse) as sink:
            writer = pq.ParquetWriter(
                sink,
                rows.schema,
                compression=codecs,
                compression_level={name: 1 for name, codec in codecs.items() if codec == "zstd"},
                use_dictionary=with_dictionary,
                write_page_checksum=True,
            )
            writer.write_table(rows, row_group_size=group.num_rows)
            writer.close()

    return act


STEPS: Final[dict[str, dict[str, Prepare]]] = {
    "ours": {
        "3 of 16 columns": _read("compacted", lineitems.THREE_COLUMNS),
        "all columns": _read("compacted"),
        "one order": _read("compacted", share=0),
        "1 % of the orders": _read("compacted", share=0.01),
        "8 runs merged": _read("runs"),
        "8 runs merged, streamed": _stream("runs"),
        "30 tiny runs": _read("tiny"),
        "append write": _write("ordered", keyed=False),
        "keyed write, shuffled": _write("shuffled", keyed=True),
        "keyed write, 4 buckets": _write("shuffled", keyed=True, buckets=4),
        A_ROW: _read("one"),
    },
    "pyarrow": {
        "3 of 16 columns": _decode("compacted", lineitems.THREE_COLUMNS),
        "all columns": _decode("compacted"),
        "8 runs merged": _decode("runs"),
        "8 runs merged, streamed": _decode_in_turn("runs"),
        "append write": _encode,
    },
    "plain": {"8 runs merged, streamed": _merge_plainly},
    "libraries": {"30 tiny runs": _by_libraries("tiny")},
}


def measured(act: Act, *, warm: bool) -> dict[str, float]:
    """Of one run, with `warm` after another one, which loads what Arrow loads late: CPU and wall seconds, and the peak of this process in MB."""
    if warm:
        act()
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return {"cpu_s": cpu, "wall_s": wall, "peak_mb": int(peak[0]) / 1024}


if __name__ == "__main__":
    WHO, STEP, WAREHOUSE = sys.argv[1:]
    print(json.dumps(measured(STEPS[WHO][STEP](WAREHOUSE), warm="write" not in STEP and STEP != A_ROW)))
