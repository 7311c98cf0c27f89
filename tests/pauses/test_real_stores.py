"""A write is held up at some calls on local disk and on S3, while a clean-up removes what nothing names; see `trial`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import PaimonError
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import storage_for
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.s3 import BUCKET, start_s3

SCHEMA = pa.schema([pa.field("k", pa.int64())])


@pytest.fixture(scope="module")
def lent() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    if request.param == "local":
        return str(tmp_path), {}
    return f"s3://{BUCKET}/{uuid.uuid4()}", request.getfixturevalue("lent")


def _clock() -> int:
    return time.time_ns() // 1_000_000


def _through(path: str, options: Mapping[str, str], store: FaultyStorage) -> Table:
    env = Env(store, _clock, lambda: str(uuid.uuid4()))
    return Table(load_table(path, EnvConfig(path, options), env=env), LocalExecutor(1, env=env))


def _clean(path: str, options: Mapping[str, str]) -> None:
    # Times of objects are in whole seconds.
    time.sleep(1.1)
    table = open_table(path, storage_options=options)
    newest = table.latest_snapshot_id() or 0
    result = table.remove_orphan_files(_clock(), confirm_latest_snapshot=newest)
    assert result.status in ("deleted", "noop"), result


@pytest.mark.parametrize("verb_and_part", [("create", "/snapshot/snapshot-2"), ("writer", "/manifest/manifest-list-")])
def test_a_write_held_up_beside_a_clean_up_is_refused_or_readable(
    place: tuple[str, dict[str, str]], verb_and_part: tuple[str, str]
) -> None:
    warehouse, options = place
    table = Catalog(warehouse, storage_options=options).create_table("d.t", schema=SCHEMA)
    path = table.path
    table.write(pa.table({"k": [1]}))
    verb, part = verb_and_part
    store = FaultyStorage(storage_for(path, options))

    def hold(called: str, where: str) -> None:
        if called == verb and part in where:
            store.act = store.fail_at = None
            _clean(path, options)

    # Asked at every call, not at the first one alone.
    store.arm(0, DOWN, act=hold)
    expected = [1]
    try:
        _through(path, options, store).write(pa.table({"k": [2]}))
        expected = [1, 2]
    except PaimonError as error:
        assert "run it again" in str(error), error

    assert store.act is None, "nothing was held up"
    assert sorted(open_table(path, storage_options=options).to_arrow()["k"].to_pylist()) == expected
    assert check_table(load_table(path, EnvConfig(path, options))) == []
