"""Tables whose metadata are in one store and whose data files are in another one, or in another bucket."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, open_table
from paimon_engine.storage import storage_for
from tests.storage.conftest import S3Server
from tests.support.file_system import file_system_of

pytestmark = pytest.mark.s3

SCHEMA = {"k": "BIGINT", "v": "STRING"}
READER = """
import json, sys
from paimon_engine import open_table
print(open_table(sys.argv[1], storage_options=json.loads(sys.argv[2])).to_arrow().num_rows)
"""


def lines(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": ["x"] * len(keys)})


@pytest.mark.parametrize("home", ["disk", "bucket"])
@pytest.mark.parametrize("strategy", ["round-robin", "entropy-inject"])
def test_a_life_with_data_in_another_store(home: str, strategy: str, s3_server: S3Server, tmp_path: Path):
    name = f"far-{uuid.uuid4()}"
    store = storage_for(f"s3://{name}", s3_server.options)
    file_system_of(store).mkdir(name)
    options = {**s3_server.options, "external-paths.deletable": f"s3://{name}"}
    warehouse = str(tmp_path) if home == "disk" else f"s3://lake/{uuid.uuid4()}"
    table = Catalog(warehouse, storage_options=options).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["k"],
        options={
            "bucket": "1",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 b",
            "data-file.external-paths": f"s3://{name}/data",
            "data-file.external-paths.strategy": strategy,
        },
    )

    def data_files() -> list[str]:
        return sorted(info.path for info in store.walk(f"s3://{name}") if not info.is_dir)

    for step in range(3):
        table.write(lines(step, step + 1))
    assert len(data_files()) == 6, "each with its index"
    assert all(entry.startswith(f"s3://{name}/data/") for entry in table.files()["file_path"].to_pylist())
    messages = table.prepare_write(lines(9))
    assert table.abort(messages).files_deleted == 2
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert len(data_files()) == 2
    assert sorted(table.to_arrow()["k"].to_pylist()) == [0, 1, 2, 3]
    assert table.verify("rows").status == "sound"
    read = subprocess.run(
        [sys.executable, "-c", READER, table.path, json.dumps(options)], capture_output=True, text=True, check=True
    )
    assert read.stdout.strip() == "4"
    assert open_table(table.path, storage_options=options).to_arrow(where="v = 'y'").num_rows == 0
