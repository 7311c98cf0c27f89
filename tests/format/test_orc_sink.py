"""An ORC file whose store fails at any write: the error of the store, and the process goes on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import io, json, sys
import pyarrow as pa
from paimon_engine.errors import StorageError
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.orc import OrcWriter

class Sink(io.BytesIO):
    calls = 0
    fails_at = None
    def write(self, data):
        self.calls += 1
        if self.fails_at is not None and self.calls > self.fails_at:
            raise StorageError("the disk is full")
        return super().write(data)

columns = {"number": pa.array(range(30_000)), "text": pa.array([f"{n * 7919:x}" * 9 for n in range(30_000)])}
if sys.argv[1] == "with times":
    columns["time"] = pa.array(range(30_000), pa.timestamp("ms"))
batch = pa.record_batch(columns)

def write(sink):
    writer = OrcWriter(sink, batch.schema, WriteOptions("none"))
    for _ in range(2):
        writer.write(batch)
    writer.close()

def outcome(fails_at):
    sink = Sink()
    sink.fails_at = fails_at
    try:
        write(sink)
    except StorageError as error:
        return str(error)
    return "written"

whole = Sink()
write(whole)
tried = sorted({0, 1, 2, 3, whole.calls // 2, whole.calls - 2, whole.calls - 1, whole.calls} & set(range(whole.calls + 1)))
print(json.dumps([outcome(number) for number in tried]))
"""
"""In a process of its own, which the encoder would end."""


@pytest.mark.parametrize("columns", ["without times", "with times"])
def test_a_write_that_fails_is_an_error_and_does_not_end_the_process(columns: str):
    done = subprocess.run([sys.executable, "-c", SCRIPT, columns], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    *failed, last = json.loads(done.stdout)
    assert set(failed) == {"the disk is full"}
    assert last == "written"
