"""The disk of temporary files is full: an error that names it, and what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import io, json, resource, signal, tempfile
import pyarrow as pa
from paimon_engine.env import EnvConfig
from paimon_engine.errors import StorageError
from paimon_engine.executor import LocalExecutor
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.orc import OrcWriter
from paimon_engine.table.files.sorting import sort_rows

batch = pa.record_batch({"k": pa.array(range(40_000)), "time": pa.array(range(40_000), pa.timestamp("ms")),
                         "text": pa.array([f"{n * 7919:x}" * 40 for n in range(40_000)])})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

def sort():
    list(sort_rows([batch, batch], "k", 1_000_000))

def split(env, part, batches):
    for rows in batches:
        yield 0, rows

def shuffle():
    executor = LocalExecutor(1, spill_bytes=0)
    executor.shuffle(pa.Table.from_batches([batch]), split=split, run=print, config=EnvConfig("memory://lake"))

def orc():
    writer = OrcWriter(io.BytesIO(), batch.schema, WriteOptions("none"))
    for _ in range(6):
        writer.write(batch)
    writer.close()

def outcome(act):
    try:
        act()
    except StorageError as error:
        return str(error)

print(json.dumps([outcome(act) for act in (sort, shuffle, orc)]))
"""


def test_a_full_disk_of_temporary_files_is_named(tmp_path: Path):
    pytest.importorskip("resource")
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == 0, done.stderr[-2000:]
    for text in json.loads(done.stdout):
        assert text.startswith(f"a temporary file in {tmp_path} could not be written: "), text
        assert "TMPDIR" in text
    assert list(tmp_path.iterdir()) == []
