"""Several committers on a store that loses replies: every acknowledged change is in the table exactly once.

One seed is one history. Faults and rivals come from one random generator, all in one thread, so that a failing seed
fails again: a rival commits between a committer's look at the latest snapshot and its own create.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.compact_manifests import CompactManifests, compact_manifests
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import ConflictError, OutcomeUnknownError
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.schema import new_schema, schema_to_json
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict
from paimon_engine.table.commit.commit import commit as commit_messages
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, read_snapshot, snapshot_ids
from paimon_engine.types import AtomicType, DataField, RowType, TypeRoot
from tests.support.unreliable_storage import UnreliableStorage

ROOT = "memory://simulation/db.db/t"
SEEDS = range(150)
KEY = RowType((DataField(0, "k", AtomicType(TypeRoot.BIGINT)),))


def new_table(storage: Any, chance: random.Random) -> TableHandle:
    options = {
        "bucket": "1",
        "commit.min-retry-wait": "0 ms",
        "commit.max-retry-wait": "0 ms",
        "manifest.merge-min-count": "4",
    }
    schema = new_schema(KEY, primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0)
    ids = iter(range(1_000_000))
    env = Env(storage, clock=lambda: 0, new_id=lambda: f"{next(ids)}-{chance.random()}")
    storage.overwrite(TablePaths(ROOT).schema(0), schema_to_json(schema).encode())
    return load_table(ROOT, EnvConfig(ROOT), env=env)


def file(name: str, level: int = 0) -> DataFile:
    key = encode_row([field.type for field in KEY], [1], reserve_null=True)
    return DataFile(name, size_bytes=1, row_count=1, min_key=key, max_key=key, level=level)


def append(name: str) -> list[CommitMessage]:
    return [CommitMessage(EMPTY_ROW, 0, 1, new_files=(file(name),))]


def commit(table: TableHandle, request: CommitRequest) -> Committed | Conflict:
    """A commit of files that are there, as the first commit of a table looks for them."""
    for message in request.messages:
        for added in (*message.new_files, *message.compact_after):
            table.env.storage.overwrite(f"{ROOT}/bucket-0/{added.name}", b"x")
    return commit_messages(table, request)


def commit_until_acknowledged(table: TableHandle, messages: list[CommitMessage], user: str) -> Committed | Conflict:
    """What a careful job does: note where it looked, and repeat under the same name until there is an answer."""
    checked = latest_snapshot_id(table) or 0
    for _ in range(100):
        kind = CommitKind.COMPACT if messages[0].compact_before else CommitKind.APPEND
        try:
            return commit(table, CommitRequest(messages, kind, user, checked_up_to=checked))
        except (OutcomeUnknownError, ConflictError):
            continue
    raise AssertionError("no answer in 100 tries")


def live_names(table: TableHandle) -> Counter[str]:
    return Counter(entry.file.name for entry in live_entries(table, latest_snapshot(table)))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_append_is_there_once(seed: int) -> None:
    chance = random.Random(seed)
    inner = MemoryStorage()
    storage = UnreliableStorage(inner, chance)
    table = new_table(storage, chance)
    rivals = iter(range(1000))
    plain = load_table(ROOT, EnvConfig(ROOT), env=Env(inner, clock=lambda: 0, new_id=table.env.new_id))
    expected: list[str] = []

    def rival() -> None:
        name = f"rival-{next(rivals)}"
        commit(plain, CommitRequest(append(name), CommitKind.APPEND, name))
        expected.append(name)

    storage.rival = rival
    for number in range(12):
        outcome = commit_until_acknowledged(table, append(f"ours-{number}"), f"user-{number}")
        assert isinstance(outcome, Committed)
        expected.append(f"ours-{number}")

    assert live_names(table) == Counter(expected)
    ids = snapshot_ids(table)
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) == len(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_compactions_of_one_file_one_succeeds(seed: int) -> None:
    chance = random.Random(seed)
    inner = MemoryStorage()
    storage = UnreliableStorage(inner, chance)
    table = new_table(storage, chance)
    plain = load_table(ROOT, EnvConfig(ROOT), env=Env(inner, clock=lambda: 0, new_id=table.env.new_id))
    commit(plain, CommitRequest(append("old"), CommitKind.APPEND, "writer"))
    outcomes: list[Committed | Conflict] = []

    def compaction(name: str) -> list[CommitMessage]:
        return [CommitMessage(EMPTY_ROW, 0, 1, compact_before=(file("old"),), compact_after=(file(name, level=5),))]

    def rival() -> None:
        if not outcomes:
            outcomes.append(commit(plain, CommitRequest(compaction("theirs"), CommitKind.COMPACT, "theirs")))

    storage.rival = rival
    outcomes.append(commit_until_acknowledged(table, compaction("ours"), "ours"))

    winners = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
    assert len(winners) == 1
    assert live_names(table) == Counter({"theirs" if winners[0].snapshot.commit_user == "theirs" else "ours": 1})


def test_another_attempt_of_the_same_job_is_recognised() -> None:
    chance = random.Random(0)
    table = new_table(MemoryStorage(), chance)
    first = commit(table, CommitRequest(append("a"), CommitKind.APPEND, "job", checked_up_to=0))

    second = commit(table, CommitRequest(append("b"), CommitKind.APPEND, "job", checked_up_to=0))

    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert not first.by_other_attempt
    assert second.by_other_attempt
    assert second.snapshot.id == first.snapshot.id
    assert live_names(table) == Counter({"a": 1})


def test_metadata_of_lost_tries_is_deleted() -> None:
    for seed in range(40):
        chance = random.Random(seed)
        inner = MemoryStorage()
        storage = UnreliableStorage(inner, chance)
        table = new_table(storage, chance)
        outcome = commit_until_acknowledged(table, append("a"), "user")
        assert isinstance(outcome, Committed)
        snapshot = outcome.snapshot
        entries: list[ManifestEntry] = live_entries(table, snapshot)
        files = {info.path.rsplit("/", 1)[-1] for info in inner.walk(f"{ROOT}/manifest")}
        assert len(entries) == 1
        manifests = {item.name for item in snapshot_manifests(table, snapshot)}
        assert files == {snapshot.base_manifest_list, snapshot.delta_manifest_list, *manifests}


@pytest.mark.parametrize("seed", range(40))
def test_manifests_are_rewritten_once_while_others_commit(seed: int) -> None:
    chance = random.Random(seed)
    inner = MemoryStorage()
    storage = UnreliableStorage(inner, chance)
    table = new_table(storage, chance)
    plain = load_table(ROOT, EnvConfig(ROOT), env=Env(inner, clock=lambda: 0, new_id=table.env.new_id))
    expected: list[str] = []

    def rival() -> None:
        name = f"rival-{len(expected)}"
        commit(plain, CommitRequest(append(name), CommitKind.APPEND, name))
        expected.append(name)

    for _ in range(3):
        rival()
    storage.rival = rival
    for _ in range(100):
        try:
            result = compact_manifests(Context(table, commit_user="tidy"), CompactManifests())
            break
        except (OutcomeUnknownError, ConflictError):
            continue

    assert result.status in ("committed", "already_done")
    assert live_names(plain) == Counter(expected)
    snapshots = [read_snapshot(plain, number) for number in snapshot_ids(plain)]
    assert [item.id for item in snapshots if item.commit_user == "tidy"] == [result.snapshot_id]
    assert len(snapshots) == len(expected) + 1
