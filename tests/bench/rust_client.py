"""The steps of `python -m tests.bench` by pypaimon-rust; run by an interpreter that has it, without this project.

PYTHON -P tests/bench/rust_client.py STEP WAREHOUSE
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path


def _table(warehouse, name):
    from pypaimon_rust.datafusion import PaimonCatalog

    return PaimonCatalog({"warehouse": warehouse}).get_table(f"db.{name}")


def _read(name, columns=None, share=None):
    def prepared(warehouse):
        import pyarrow as pa

        table = _table(warehouse, name)
        builder = table.new_read_builder()
        if columns:
            builder = builder.with_projection(columns)
        if share is not None:
            last = table.latest_snapshot().total_record_count()
            middle = last // 2 // 32 * 32 + 1
            limits = [middle, middle + int(last * share)]
            builder = builder.with_filter({"method": "between", "field": "l_orderkey", "literals": limits})
        return lambda: pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))

    return prepared


def _stream(name):
    def prepared(warehouse):
        builder = _table(warehouse, name).new_read_builder()
        splits = builder.new_scan().plan().splits
        return lambda: sum(batch.num_rows for batch in builder.new_read().read(splits()))

    return prepared


def _plan(where=None):
    def prepared(warehouse):
        builder = _table(warehouse, "t").new_read_builder()
        if where is not None:
            builder = builder.with_filter({"method": "equal", "field": "day", "literals": [where]})
        return lambda: builder.new_scan().plan().splits()

    return prepared


def _write(data, name):
    """Into a copy of a table without rows, which the other side made."""

    def prepared(warehouse):
        import shutil

        import pyarrow as pa

        with pa.OSFile(f"{warehouse}/{data}.arrow") as source:
            batches = pa.ipc.open_file(source).read_all().to_batches()
        folder = tempfile.TemporaryDirectory(dir=warehouse)
        shutil.copytree(f"{warehouse}/db.db/{name}", f"{folder.name}/db.db/{name}")
        table = _table(folder.name, name)

        def write(some):
            builder = table.new_batch_write_builder()
            writer, commit = builder.new_write(), builder.new_commit()
            for batch in some:
                writer.write_arrow(batch)
            commit.commit(writer.prepare_commit())
            writer.close()
            commit.close()

        def act():
            write(batches)
            folder.cleanup()

        write([batches[0].slice(0, 10)])

        return act

    return prepared


STEPS = {
    "3 of 16 columns": _read("compacted", ["l_orderkey", "l_quantity", "l_shipdate"]),
    "all columns": _read("compacted"),
    "one order": _read("compacted", share=0),
    "1 % of the orders": _read("compacted", share=0.01),
    "8 runs merged": _read("runs"),
    "8 runs merged, streamed": _stream("runs"),
    "30 tiny runs": _read("tiny"),
    "append write": _write("ordered", "empty_append"),
    "keyed write, shuffled": _write("shuffled", "empty_keyed"),
    "keyed write, 4 buckets": _write("shuffled", "empty_keyed_4"),
    "a row": _read("one"),
    "plan": _plan(),
    "plan of one of 100 partitions": _plan(7),
    "list partitions": lambda warehouse: _table(warehouse, "t").list_partitions,
    "list snapshots": lambda warehouse: _table(warehouse, "t").list_snapshots,
}


if __name__ == "__main__":
    act = STEPS[sys.argv[1]](sys.argv[2])
    if not any(word in sys.argv[1] for word in ("write", "a row", "plan", "list")):
        act()
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "peak_mb": int(peak[0]) / 1024}))
