"""Actions are paused at some calls on local disk and on S3, while others clean up, expire, tag or restore; see `trial`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import now_ms
from paimon_engine.errors import PaimonError
from paimon_engine.storage import storage_for
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.s3 import BUCKET, start_s3
from tests.support.world import Real
from tests.support.world.check import assert_sound

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture(scope="module")
def lent() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    if request.param == "local":
        return str(tmp_path), {}
    return f"s3://{BUCKET}/{uuid.uuid4()}", request.getfixturevalue("lent")


def _clean(path: str, options: Mapping[str, str]) -> None:
    # Times of objects are in whole seconds; those of files on a disk lag behind the clock by some milliseconds.
    time.sleep(1.1 if path.startswith("s3:") else 0.02)
    table = open_table(path, storage_options=options)
    newest = table.latest_snapshot_id() or 0
    result = table.remove_orphan_files(now_ms(), confirm_latest_snapshot=newest)
    assert result.status in ("deleted", "noop"), result


def _expire(path: str, options: Mapping[str, str]) -> None:
    table = open_table(path, storage_options=options)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
    _clean(path, options)


def _restore(path: str, options: Mapping[str, str]) -> None:
    table = open_table(path, storage_options=options)
    for item in table.quarantines():
        table.restore(item["quarantine"])


def _tag(path: str, options: Mapping[str, str]) -> None:
    with suppress(PaimonError):
        open_table(path, storage_options=options).create_tag("late", snapshot=1)
    _clean(path, options)


def _row(key: int, value: int = 0) -> pa.Table:
    return pa.table({"k": [key], "v": [value]}, SCHEMA)


def _with_branch(path: str, options: Mapping[str, str]) -> None:
    table = open_table(path, storage_options=options)
    table.create_branch("b", snapshot=1)
    open_table(f"{path}$branch_b", storage_options=options).write(_row(7))


def _compacted(path: str, options: Mapping[str, str]) -> None:
    open_table(path, storage_options=options).compact(full=True)


@dataclass(frozen=True)
class Case:
    """`act` is paused at its first call of `verb` on a path with `part`, while `meanwhile` happens.

    `keys` are those of the rows afterwards if the action succeeds. The table has the keys 1 and 2, of a commit each.
    """

    act: Callable[[Table], Any]
    verb: str
    part: str
    keys: tuple[int, ...] = (1, 2)
    meanwhile: Callable[[str, Mapping[str, str]], None] = _clean
    prepare: Callable[[str, Mapping[str, str]], None] = lambda _path, _options: None


CASES = {
    "append, lists": Case(lambda t: t.write(_row(3)), "writer", "/manifest/manifest-list-", (1, 2, 3)),
    "write, snapshot": Case(lambda t: t.write(_row(3)), "create", "/snapshot/snapshot-3", (1, 2, 3)),
    "overwrite, snapshot": Case(lambda t: t.write(_row(3), overwrite={}), "create", "/snapshot/snapshot-3", (3,)),
    "compact, lists": Case(lambda t: t.compact(full=True), "writer", "/manifest/manifest-list-"),
    "compact, snapshot": Case(lambda t: t.compact(full=True), "create", "/snapshot/snapshot-3"),
    "create a tag": Case(lambda t: t.create_tag("old", snapshot=1), "create", "/tag/tag-old", meanwhile=_expire),
    "roll back as the latest": Case(
        lambda t: t.rollback_to_as_latest(snapshot=1), "create", "/snapshot/snapshot-3", (1,)
    ),
    "append, merge a branch": Case(
        lambda t: t.merge_branch("b"), "create", "/snapshot/snapshot-3", (1, 2, 7), prepare=_with_branch
    ),
    "fast-forward": Case(
        lambda t: t.fast_forward("b"), "overwrite", "/snapshot/snapshot-2", (1, 7), prepare=_with_branch
    ),
    "expire": Case(
        lambda t: t.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms()),
        "delete",
        "/bucket-",
        meanwhile=_tag,
        prepare=_compacted,
    ),
    "expire into a quarantine": Case(
        lambda t: t.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms(), quarantine=True),
        "delete",
        "/bucket-",
        meanwhile=_restore,
        prepare=_compacted,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_action_paused_during_others_is_refused_or_readable(location: tuple[str, dict[str, str]], name: str) -> None:
    case, (warehouse, options) = CASES[name], location
    keys = [] if name.startswith("append") else ["k"]
    bucket = {"bucket": "1", **({} if keys else {"bucket-key": "k"})}
    table = Catalog(warehouse, storage_options=options).create_table(
        "d.t", schema=SCHEMA, primary_keys=keys, options=bucket
    )
    path = table.path
    table.write(_row(1))
    table.write(_row(2))
    case.prepare(path, options)
    store = FaultyStorage(storage_for(path, options))

    def hold(called: str, where: str) -> None:
        if called == case.verb and case.part in where:
            store.act = store.fail_at = None
            case.meanwhile(path, options)

    # Checked at every call, not only at the first one.
    store.arm(0, DOWN, act=hold)
    expected: tuple[int, ...] = (1, 2)
    try:
        case.act(Real(path, options).through(store).table())
        expected = case.keys
    except PaimonError as error:
        assert "again" in str(error) or "snapshot" in str(error), error

    assert store.act is None, "nothing was paused"
    after = open_table(path, storage_options=options)
    assert tuple(sorted(after.to_arrow()["k"].to_pylist())) == expected
    assert_sound(Real(path, options).handle)
    for tag in after.tags()["tag_name"].to_pylist():
        assert after.to_arrow(tag=tag)["k"].to_pylist() == [1]
