"""A job's earlier commit is searched for among many snapshots: several at a time on object stores, with equal results."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from typing import Any

from paimon_engine.errors import CorruptTableError, OutcomeUnknownError, PaimonError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.snapshot import CommitKind, snapshot_to_json
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.commit.own_commits import OwnCommit, find_own_commit
from paimon_engine.table.commit.records import CommitKey, write_record
from paimon_engine.table.state.snapshots import read_snapshot
from tests.support.seeds import seeds
from tests.support.world.made_up import History

AT_HOME = "memory://lake/db.db/t"
FAR_AWAY = "s3://lake/db.db/t"
JOB = identifier_of(Maker.JOB)


class Watched(MemoryStorage):
    """Counts reads of snapshots, and how many of them are under way at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.most = 0
        self._under_way = 0
        self._watch = threading.Lock()
        self.delay_s = 0.0

    def read(self, path: str) -> bytes:
        if "/snapshot-" not in path:
            return super().read(path)
        with self._watch:
            self.reads.append(path)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        try:
            time.sleep(self.delay_s)
            return super().read(path)
        finally:
            with self._watch:
                self._under_way -= 1


def history(root: str, count: int) -> History:
    made = History({"snapshot.num-retained.min": "1"}, storage=Watched(), root=root)
    for _ in range(count):
        made.write()
    return made


def search(made: History, user: str) -> OwnCommit:
    made.storage.reads.clear()
    made.storage.most = 0
    return find_own_commit(made.handle, user, CommitKind.APPEND, JOB)


def test_many_snapshots_are_read_at_a_time_on_an_object_store() -> None:
    made = history(FAR_AWAY, 150)
    made.storage.delay_s = 0.005

    assert search(made, "nobody").snapshot is None

    assert 4 <= made.storage.most <= 16
    assert len(set(made.storage.reads)) == 150


def test_few_are_read_in_vain_if_the_newest_is_the_one() -> None:
    made = history(FAR_AWAY, 150)
    latest = read_snapshot(made.handle, 150)

    found = find_own_commit(made.handle, latest.commit_user, latest.commit_kind, latest.commit_identifier)

    assert found.snapshot == latest
    made.storage.reads.clear()
    find_own_commit(made.handle, latest.commit_user, latest.commit_kind, latest.commit_identifier)
    assert len(made.storage.reads) <= 8


def test_on_a_disk_one_is_read_after_another() -> None:
    made = history(AT_HOME, 40)

    search(made, "nobody")

    assert made.storage.most == 1


def test_the_result_is_that_of_reading_one_after_another() -> None:
    """Snapshots that are missing, damaged, a job's own or its parts, and an intent whose later snapshots have expired."""
    seen = set()
    for seed in seeds(16):
        at_home, far_away = outcome(strange_history(AT_HOME, seed)), outcome(strange_history(FAR_AWAY, seed))
        assert far_away == at_home, seed
        seen.add(at_home if isinstance(at_home, type) else at_home[0] is not None)
    assert seen == {True, False, CorruptTableError, OutcomeUnknownError}


def outcome(made: History) -> Any:
    try:
        found = find_own_commit(made.handle, "job", CommitKind.APPEND, JOB)
    except PaimonError as error:
        return type(error)
    return found.snapshot and found.snapshot.id, found.checked_up_to, found.parts


def strange_history(root: str, seed: int) -> History:
    chance = random.Random(seed)
    made = history(root, chance.randint(12, 40))
    paths, storage, count = made.handle.paths, made.storage, made.ids()[-1]
    for number in chance.sample(range(2, count), 3):
        path = paths.snapshot(number)
        match chance.randrange(6):
            case 0:
                storage.overwrite(path, b"{")
            case 1 | 2:
                storage.overwrite(path, renamed(made, number, JOB - chance.randrange(3)))
            case 3 | 4:
                made.tag(f"t{number}", number)
            case _:
                storage.delete([path])
    if chance.random() < 0.5:
        key = CommitKey("job", CommitKind.APPEND, JOB)
        write_record(made.handle, key, base=chance.randrange(1, count), snapshot=None)
        storage.delete([paths.snapshot(number) for number in range(1, chance.randrange(2, count))])
    return made


def renamed(made: History, number: int, identifier: int) -> bytes:
    """A snapshot as the job's own, of that identifier."""
    snapshot = replace(read_snapshot(made.handle, number), commit_user="job", commit_identifier=identifier)
    return snapshot_to_json(snapshot).encode()
