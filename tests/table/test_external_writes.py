"""Data files that options want outside of the table: who may write there, and what becomes of them after a failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    CommitMessage,
    ConflictError,
    InvalidArgumentError,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.env import now_ms
from paimon_engine.options import TableOptions
from paimon_engine.options.external import ExternalPaths
from paimon_engine.table.files.new_paths import NewPaths

SCHEMA = {"k": "BIGINT", "v": "STRING"}


def made(folder: Path, *, storage: Mapping[str, str] | None = None, **options: str) -> Table:
    """A table with files in `far`, which by default the caller may use and delete from."""
    storage = {"external-paths.deletable": str(folder / "far")} if storage is None else storage
    spread = {"data-file.external-paths": f"file://{folder}/far", "data-file.external-paths.strategy": "round-robin"}
    chosen = {"bucket": "1", **spread, **options}
    catalog = Catalog(str(folder / "lake"), storage_options=storage)
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=chosen)


def lines(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": ["x"] * len(keys)})


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def data_files(folder: Path) -> list[Path]:
    return [path for path in files_in(folder) if path.name.startswith("data-")]


# ── permission ──────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_written_where_the_caller_does_not_allow_it(tmp_path: Path):
    table = made(tmp_path, storage={})
    before = files_in(tmp_path)

    for act in (
        lambda: table.write(lines(1)),
        lambda: table.prepare_write(lines(1)),
        lambda: table.compact(full=True),
        lambda: table.rescale(),
    ):
        with pytest.raises(UnsupportedError, match=r"data-file.external-paths.*external-paths.allowed"):
            act()

    assert files_in(tmp_path) == before


def test_the_options_of_the_table_allow_nothing(tmp_path: Path):
    table = made(tmp_path, storage={}, **{"external-paths.allowed": "/"})

    with pytest.raises(UnsupportedError, match=r"external-paths.allowed"):
        table.write(lines(1))


def test_reading_is_enough_to_write(tmp_path: Path):
    table = made(tmp_path, storage={"external-paths.allowed": str(tmp_path / "far")})

    table.write(lines(1, 2))
    table.write(lines(2, 3))
    table.compact(full=True)
    result = table.expire_snapshots(retain_max=1, retain_min=1)

    assert table.to_arrow().num_rows == 3
    assert data_files(tmp_path / "lake") == []
    assert len(data_files(tmp_path / "far")) == 3, "the caller does not allow to delete them"
    assert any("outside the table and stays" in text for text in result.stopped)


# ── options ─────────────────────────────────────────────────────────────────────────────────────


def options_of(paths: str, strategy: str | None, **more: str) -> TableOptions:
    chosen = {"data-file.external-paths": paths}
    if strategy is not None:
        chosen["data-file.external-paths.strategy"] = strategy
    return TableOptions({**chosen, **{f"data-file.external-paths.{key}": text for key, text in more.items()}})


@pytest.mark.parametrize("strategy", [None, "none", "NONE"])
def test_without_a_strategy_files_are_in_the_table(strategy: str | None, tmp_path: Path):
    assert options_of("s3://b/c", strategy).external_paths is None
    chosen = {} if strategy is None else {"data-file.external-paths.strategy": strategy}
    table = made(tmp_path, storage={}, **{"data-file.external-paths.strategy": "none", **chosen})
    table.write(lines(1))
    assert len(data_files(tmp_path / "lake")) == 1


def test_a_file_system_may_be_chosen():
    paths = "s3://b/c, oss://d/e , s3://f"
    found = options_of(paths, "specific-fs", **{"specific-fs": "S3"}).external_paths
    assert found == ExternalPaths(("s3://b/c", "s3://f"))


@pytest.mark.parametrize(
    ("paths", "strategy", "more", "message"),
    [
        ("/far", "round-robin", {}, "with their scheme"),
        ("far", "entropy-inject", {}, "with their scheme"),
        ("s3://b/c, d", "round-robin", {}, "names 'd'"),
        ("s3://b/c", "random", {}, "choose one of none, specific-fs"),
        ("s3://b/c", "specific-fs", {}, "needs 'data-file.external-paths.specific-fs'"),
        ("s3://b/c", "specific-fs", {"specific-fs": "oss"}, "names no directory"),
        ("s3://b/c, s3://d", "weight-robin", {"weights": "1"}, "1 weights, and .* 2 directories"),
        ("s3://b/c, s3://d", "weight-robin", {"weights": "1, 0"}, "write integers"),
        ("s3://b/c", "round-robin", {"weights": "one"}, "write integers"),
    ],
)
def test_options_that_name_no_place_are_refused(paths: str, strategy: str, more: dict[str, str], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        _ = options_of(paths, strategy, **more).external_paths


@pytest.mark.parametrize("place", ["file:///a/../b", "file:///a//b", "file://{root}", "file://{root}/in"])
def test_places_in_the_table_or_of_no_clear_name_are_refused(place: str, tmp_path: Path):
    root = tmp_path / "lake" / "db.db" / "t"
    where = place.format(root=root)
    table = made(tmp_path, storage={"external-paths.allowed": "/"}, **{"data-file.external-paths": where})

    with pytest.raises(InvalidArgumentError, match="data-file.external-paths"):
        table.write(lines(1))

    assert data_files(tmp_path) == []


def test_weights_are_kept_to_and_turns_are_taken(tmp_path: Path):
    def shares(**options: str) -> Counter[str]:
        two = f"file://{tmp_path}/far/a, file://{tmp_path}/far/b"
        table = made(tmp_path / str(len(files_in(tmp_path))), **{"data-file.external-paths": two, **options})
        table = open_table(table.path, storage_options={"external-paths.allowed": str(tmp_path / "far")})
        paths = NewPaths(table._handle, b"\x00\x00\x00\x00" + bytes(8), 0)
        chosen = [paths.choose(f"data-{number:032x}-0.parquet") for number in range(4_000)]
        return Counter(re.findall("/far/(.)/", " ".join(chosen)))

    assert shares() == {"a": 2_000, "b": 2_000}
    uneven = shares(**{"data-file.external-paths.strategy": "weight-robin", "data-file.external-paths.weights": "3, 1"})
    assert 2_800 < uneven["a"] < 3_200


# ── failures ────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_write_leaves_no_file_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = made(tmp_path)
    bad: Any = pa.table({"k": pa.array([1, None], pa.int64()), "v": ["x", "y"]})

    with pytest.raises(InvalidArgumentError):
        table.write([lines(1).to_batches()[0], bad.to_batches()[0]])

    assert data_files(tmp_path) == []


def test_files_of_messages_are_deleted_where_the_caller_allows_it(tmp_path: Path):
    table = made(tmp_path)
    table.write(lines(1))
    committed = data_files(tmp_path)
    messages = table.prepare_write(lines(2))
    assert len(data_files(tmp_path)) == 2
    again = [CommitMessage.from_json(message.to_json()) for message in messages]
    only_read = open_table(table.path, storage_options={"external-paths.allowed": str(tmp_path / "far")})

    kept = only_read.abort(again)
    assert (kept.status, kept.files_deleted) == ("stopped", 0)
    assert "external-paths.deletable" in kept.stopped[0]
    assert len(data_files(tmp_path)) == 2

    unseen = open_table(table.path).abort(again)
    assert (unseen.status, unseen.files_deleted) == ("stopped", 0)
    assert "external-paths.deletable" in unseen.stopped[0]
    assert len(data_files(tmp_path)) == 2

    gone = table.abort(again)
    assert (gone.status, gone.files_deleted, gone.stopped) == ("deleted", 1, ())
    assert data_files(tmp_path) == committed
    with pytest.raises(ConflictError):
        table.commit(again, commit_user="job")
    assert table.abort(again).status == "noop"


def test_committed_files_outside_are_not_aborted(tmp_path: Path):
    table = made(tmp_path)
    messages = table.prepare_write(lines(2))
    table.commit(messages, commit_user="job")

    found = table.abort(messages)

    assert (found.files_deleted, found.files_committed) == (0, 1)
    assert table.to_arrow().num_rows == 1


def test_an_abort_deletes_nothing_that_a_message_only_claims(tmp_path: Path):
    table = made(tmp_path)
    (message,) = table.prepare_write(lines(2))
    victim = tmp_path / "victim" / data_files(tmp_path)[0].name
    victim.parent.mkdir()
    victim.write_text("keep me")
    false = CommitMessage.from_json(message.to_json().replace(f"{tmp_path}/far/bucket-0", str(victim.parent)))
    assert false != message

    table.abort([false])

    assert victim.read_text() == "keep me"


def test_a_commit_looks_whether_others_deleted_its_files_outside(tmp_path: Path):
    """Java's removal of orphan files looks outside too, where another table may use the same directory."""
    table = made(tmp_path)
    table.write(lines(1))
    before = data_files(tmp_path)
    messages = table.prepare_write(lines(2))
    for path in set(data_files(tmp_path)) - set(before):
        path.unlink()
    # An own clean-up of other files makes the commit look at its own.
    assert table.abort(table.prepare_write(lines(3))).status == "deleted"

    with pytest.raises(ConflictError):
        table.commit(messages, commit_user="job")

    assert table.to_arrow().num_rows == 1


def test_orphans_outside_are_left_alone(tmp_path: Path):
    """Two tables may share a directory, in whose paths no table has its name: nobody knows whose a file is."""
    table = made(tmp_path)
    table.write(lines(1))
    table.prepare_write(lines(2))
    before = data_files(tmp_path)

    table.remove_orphan_files(older_than=now_ms())

    assert data_files(tmp_path) == before
    assert len(before) == 2


def test_dropping_a_table_leaves_what_is_outside(tmp_path: Path):
    table = made(tmp_path)
    table.write(lines(1))
    other = tmp_path / "far" / "of another table"
    other.write_text("keep me")

    Catalog(str(tmp_path / "lake")).drop_table("db.t")

    assert other.read_text() == "keep me"
    assert len(data_files(tmp_path / "far")) == 1
