"""Several committers on a store that loses replies: every acknowledged change is in the table exactly once.

One seed is one history. Faults and rivals come from one random generator, all in one thread, so that a failing seed
fails again: a rival commits between a committer's look at the latest snapshot and its own create.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.errors import ConflictError, OutcomeUnknownError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, read_snapshot
from tests.support.unreliable_storage import UnreliableStorage
from tests.support.world.made_up import ROOT, History
from tests.support.world.world import QUICK

SEEDS = range(150)


def new_table(seed: int) -> tuple[History, History, UnreliableStorage]:
    """A table seen through a store that loses replies; the same table, seen by others as it is; and the first store."""
    honest = History({**QUICK, "manifest.merge-min-count": "4"})
    unreliable = UnreliableStorage(honest.inner, random.Random(seed))
    return honest.beside(unreliable), honest, unreliable


def append(history: History, name: str) -> list[CommitMessage]:
    return [CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file(name),))]


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


def live_names(history: History) -> Counter[str]:
    found = live_entries(history.handle, latest_snapshot(history.handle))
    return Counter(entry.file.name.removesuffix(".orc") for entry in found)


class Rivals:
    """Others, each of whom commits a file when it is called."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.names: list[str] = []

    def __call__(self) -> None:
        self.names.append(f"rival-{len(self.names)}")
        self._history.write(self.names[-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_append_is_there_once(seed: int) -> None:
    ours, honest, storage = new_table(seed)
    storage.rival = rivals = Rivals(honest)
    names = [f"ours-{number}" for number in range(12)]
    for name in names:
        assert isinstance(commit_until_acknowledged(ours.handle, append(ours, name), name), Committed)

    expected = Counter([*names, *rivals.names])
    assert live_names(ours) == expected
    assert ours.ids() == list(range(1, expected.total() + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_compactions_of_one_file_one_succeeds(seed: int) -> None:
    ours, honest, storage = new_table(seed)
    honest.write("old")
    outcomes: list[Committed | Conflict] = []

    def compaction(name: str) -> list[CommitMessage]:
        before, after = (honest.file("old"),), (honest.file(name, level=5),)
        return [CommitMessage(EMPTY_ROW, 0, 1, compact_before=before, compact_after=after)]

    def rival() -> None:
        if not outcomes:
            outcomes.append(commit(honest.handle, CommitRequest(compaction("theirs"), CommitKind.COMPACT, "theirs")))

    storage.rival = rival
    outcomes.append(commit_until_acknowledged(ours.handle, compaction("ours"), "ours"))

    winners = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
    assert len(winners) == 1
    assert live_names(ours) == Counter({winners[0].snapshot.commit_user: 1})


def test_another_attempt_of_the_same_job_is_recognised() -> None:
    history = History()
    first = commit(history.handle, CommitRequest(append(history, "a"), CommitKind.APPEND, "job", checked_up_to=0))

    second = commit(history.handle, CommitRequest(append(history, "b"), CommitKind.APPEND, "job", checked_up_to=0))

    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert not first.by_other_attempt
    assert second.by_other_attempt
    assert second.snapshot.id == first.snapshot.id
    assert live_names(history) == Counter({"a": 1})


def test_metadata_of_lost_tries_is_deleted() -> None:
    for seed in range(40):
        ours, honest, _ = new_table(seed)
        outcome = commit_until_acknowledged(ours.handle, append(ours, "a"), "user")
        assert isinstance(outcome, Committed)
        snapshot = outcome.snapshot
        entries: list[ManifestEntry] = live_entries(honest.handle, snapshot)
        files = {info.path.rsplit("/", 1)[-1] for info in honest.inner.walk(f"{ROOT}/manifest")}
        assert len(entries) == 1
        manifests = {item.name for item in snapshot_manifests(honest.handle, snapshot)}
        assert files == {snapshot.base_manifest_list, snapshot.delta_manifest_list, *manifests}
        honest.assert_exact()


@pytest.mark.parametrize("seed", range(40))
def test_manifests_are_rewritten_once_while_others_commit(seed: int) -> None:
    ours, honest, storage = new_table(seed)
    rivals = Rivals(honest)
    for _ in range(3):
        rivals()
    storage.rival = rivals
    for _ in range(100):
        try:
            result = ours.run(CompactManifests(), "tidy")
            break
        except (OutcomeUnknownError, ConflictError):
            continue

    assert result.status in ("committed", "already_done")
    assert live_names(honest) == Counter(rivals.names)
    snapshots = [read_snapshot(honest.handle, number) for number in honest.ids()]
    assert [item.id for item in snapshots if item.commit_user == "tidy"] == [result.snapshot_id]
    assert len(snapshots) == len(rivals.names) + 1
