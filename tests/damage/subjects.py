"""The tables that are damaged: made by our engine, or by Java where we cannot write them, as files by path.

A subject is small and has every kind of file at least once; together they have them all. Our own are the same bytes
in every process, since clock and ids are fixed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.tags import CreateTag, create_tag
from paimon_engine.actions.write import write_arrow
from paimon_engine.env import Env, EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import create_table
from paimon_engine.types import to_arrow_schema
from tests.support.golden import golden_folder

ROOT: Final = "memory://damage/db.db/t"
Files = Mapping[str, bytes]
"""Content by path, counted from the table's directory."""

_GOLDEN: Final = (
    "branches",
    "changelog_lookup",
    "dv_orc_partitioned",
    "dv_write_only",
    "dynamic_bucket_partitioned",
    "file_index_bloom_separate",
    "manifest_orc",
    "statistics",
)
_OWN: Final = ("append", "avro", "orc", "parquet")
SUBJECTS: Final = (*_OWN, *_GOLDEN)

_KINDS: Final = (
    (r"snapshot/(LATEST|EARLIEST)", "hint"),
    (r"snapshot/snapshot-\d+", "snapshot"),
    (r"schema/schema-\d+", "schema"),
    (r"tag/tag-.*", "tag"),
    (r"consumer/.*", "consumer"),
    (r"changelog/.*", "changelog"),
    (r"manifest/manifest-list-.*", "manifest list"),
    (r"manifest/index-manifest-.*", "index manifest"),
    (r"manifest/manifest-.*", "manifest"),
    (r"statistics/.*", "statistics"),
    (r".*/bucket-[^/]*/.*\.index", "file index"),
    (r".*/bucket-[^/]*/.*\.(parquet|orc|avro)", "data"),
    (r"bucket-[^/]*/.*\.index", "file index"),
    (r"bucket-[^/]*/.*\.(parquet|orc|avro)", "data"),
)


def kind_of(path: str, files: Files) -> str:
    """What a file is; data files are distinguished by format."""
    inner = re.sub(r"^branch/branch-[^/]+/", "", path)
    for pattern, kind in _KINDS:
        if match := re.fullmatch(pattern, inner):
            return match[match.lastindex or 0] if kind == "data" else kind
    assert path.startswith("index/"), path
    # Hash indexes have no head; deletion vectors begin with their version and a length.
    return "deletion vectors" if any("deletion-vectors.enabled" in text for text in _schemas(files)) else "hash index"


def _schemas(files: Files) -> list[str]:
    return [data.decode() for path, data in files.items() if path.startswith("schema/")]


@cache
def subject(name: str) -> Files:
    """The files of a subject."""
    return _own(name) if name in _OWN else _golden(name)


def _golden(name: str) -> Files:
    folder = golden_folder()
    assert folder is not None
    root = folder / name / "table"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if _is_file(path)}


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _own(name: str) -> Files:
    storage = MemoryStorage()
    numbers, seconds = itertools.count(), itertools.count()
    env = Env(storage, clock=lambda: next(seconds) * 1000, new_id=lambda: f"{next(numbers):08d}-id")
    keys: list[str] = [] if name == "append" else ["p", "k"]
    options = {"bucket": "-1" if name == "append" else "1", "manifest.merge-min-count": "4"}
    handle = create_table(
        env,
        EnvConfig(ROOT),
        ROOT,
        schema=pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())]),
        primary_keys=keys,
        partition_keys=["p"],
        options={**options, "file.format": "parquet" if name == "append" else name},
        comment="harmless",
        if_not_exists=False,
    )
    _fill(handle, LocalExecutor(1, env=env))
    storage.overwrite(f"{ROOT}/consumer/consumer-c", json.dumps({"nextSnapshot": 4}).encode())
    _add_branch(storage)
    return {info.path.removeprefix(f"{ROOT}/"): storage.read(info.path) for info in storage.walk(ROOT)}


def _fill(handle: TableHandle, executor: LocalExecutor) -> None:
    """Five snapshots, of which each has another number of rows; two tags."""

    def write(first: int, count: int) -> None:
        ids = range(first, first + count)
        rows = {"p": [n % 2 for n in ids], "k": list(ids), "v": [f"row {n} of {first}" for n in ids]}
        write_arrow(handle, iter(pa.table(rows, schema=to_arrow_schema(handle.schema.row_type)).to_batches()))

    write(0, 40)
    write(30, 21)
    create_tag(Context(handle, executor), CreateTag("two", snapshot=2))
    write(10, 33)
    compact(Context(handle, executor), Compact(full=True))
    create_tag(Context(handle, executor), CreateTag("four", snapshot=4))
    write(5, 4)


def _add_branch(storage: MemoryStorage) -> None:
    """A branch from the tag `two`, as Java makes it."""
    branch = f"{ROOT}/branch/branch-b"
    for source in ("schema/schema-0", "snapshot/snapshot-2", "tag/tag-two"):
        storage.overwrite(f"{branch}/{source}", storage.read(f"{ROOT}/{source}"))


def is_golden(name: str) -> bool:
    """Whether Java made the subject, so that the archive is needed."""
    return name in _GOLDEN


def store(files: Files) -> MemoryStorage:
    """A store with these files."""
    storage = MemoryStorage(clock=lambda: 0)
    for path, data in files.items():
        storage.overwrite(f"{ROOT}/{path}", data)
    return storage
