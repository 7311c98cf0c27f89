"""Going from root to root, a verification has the live files that each root's manifests give by themselves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.file_set import FoldError, live_files
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.check.current_files import CurrentFiles
from paimon_engine.table.check.table_check import Depth, check_table
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from tests.support.random_manifests import random_file
from tests.support.seeds import seeds
from tests.support.world.made_up import History

FILES = 12
PARTITIONS = [EMPTY_ROW, b"one"]


class RandomManifests:
    """Manifests about a few files, each of which may be in two levels; most of them add up, some do not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.entries: dict[str, list[ManifestEntry]] = {}
        files = [replace(random_file(rng, number), level=number % 2, name=f"{number // 2}") for number in range(FILES)]
        self.files = [(rng.choice(PARTITIONS), rng.randrange(2), rng.choice([-1, 2, 4]), file) for file in files]

    def manifest(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
        name = f"manifest-{len(self.entries)}"
        self.entries[name] = list(entries)
        return ManifestFile(name, 1, 0, 0, EMPTY_STATS, 0)

    def following(self, before: list[ManifestFile]) -> list[ManifestFile]:
        """What the next root may have: one manifest more, fewer, another order, or all in one."""
        kind = self.rng.choice(["more", "more", "more", "fewer", "joined", "shuffled"])
        if kind == "fewer":
            return before[: self.rng.randrange(len(before) + 1)]
        if kind == "shuffled":
            return self.rng.sample(before, len(before))
        if kind == "joined":
            return [self.manifest([entry for one in before for entry in self.entries[one.name]])]
        return [*before, self.manifest([self._entry(before) for _ in range(self.rng.randrange(4))])]

    def _entry(self, before: list[ManifestFile]) -> ManifestEntry:
        partition, bucket, total, file = self.rng.choice(self.files)
        entry = ManifestEntry(FileKind.ADD, partition, bucket, total, file)
        live = {one.identity for one in self.live_or_none(before) or []}
        fits = FileKind.DELETE if entry.identity in live else FileKind.ADD
        kind = fits if self.rng.random() < 0.95 else self.rng.choice(list(FileKind))
        return replace(entry, kind=kind)

    def live_or_none(self, manifests: Sequence[ManifestFile]) -> list[ManifestEntry] | None:
        try:
            return live_files(entry for one in manifests for entry in self.entries[one.name])
        except FoldError:
            return None


@pytest.mark.parametrize("seed", seeds(60))
def test_each_root_has_the_files_that_its_manifests_give(seed: int):
    made = RandomManifests(random.Random(seed))
    live = CurrentFiles(lambda manifest: made.entries[manifest.name])
    roots: list[list[ManifestFile]] = [[]]
    before: dict[FileIdentity, ManifestEntry] = {}
    for _ in range(40):
        manifests = made.following(made.rng.choice(roots[-3:]))
        expected = made.live_or_none(manifests)
        if expected is None:
            with pytest.raises(FoldError):
                live.move_to(manifests)
            assert (live.rows, list(live.buckets), live.of_name("0")) == (0, [], None)
            before = {}
            continue
        roots.append(manifests)
        now = {entry.identity: entry for entry in expected}
        missing, others = (
            sorted(one.name for one in before - now.keys()),
            sorted(one.name for one in now.keys() - before),
        )
        assert live.differences(manifests) == (missing, others)

        change = live.move_to(manifests)

        assert {entry.identity for entry in change.added} == now.keys() - before.keys()
        changed = now.keys() ^ before.keys()
        assert set(change.buckets) == {(one.partition, one.bucket) for one in changed}
        assert {one.identity for bucket in live.buckets for one in live.of_bucket(bucket)} == now.keys()
        assert set(live.buckets) == {(one.partition, one.bucket) for one in now}
        assert live.rows == sum(entry.file.row_count for entry in expected)
        names = {file.name for _, _, _, file in made.files if live.of_name(file.name) is not None}
        assert names == {one.name for one in now}
        for partition in PARTITIONS:
            totals = {one.total_buckets for one in expected if one.partition == partition and one.total_buckets > 0}
            assert live.bucket_counts(partition) == sorted(totals)
        before = now
    assert len(roots) > 1


def test_damage_is_reported_of_each_root_that_has_it():
    """Files that overlap stay as they are, so that a check of what has changed alone would find them once."""
    history = History().write("a")
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file("x", level=3), history.file("y", level=3)))
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "careless"))
    history.write("b").write("c").tag("t", 4)

    found = {problem.where for problem in check_table(history.handle, depth=Depth.METADATA)}

    assert found == {"snapshot 2", "snapshot 3", "snapshot 4", "tag 't'"}


def test_a_manifest_that_roots_share_is_folded_once():
    made = RandomManifests(random.Random(1))
    partition, bucket, total, file = made.files[0]
    entries = [
        ManifestEntry(FileKind.ADD, partition, bucket, total, replace(file, name=f"file {number}"))
        for number in range(30)
    ]
    manifests = [made.manifest([entry]) for entry in entries]
    merged = made.manifest(entries[:29])
    read = Counter[str]()

    def entries_of(manifest: ManifestFile) -> list[ManifestEntry]:
        read[manifest.name] += 1
        return made.entries[manifest.name]

    live = CurrentFiles(entries_of)
    added = [live.move_to(manifests[: number + 1]).added for number in range(30)]
    added.append(live.move_to([merged, manifests[-1]]).added)

    assert added == [*([entry] for entry in entries), []]
    assert set(read.values()) == {1}


def test_a_file_of_which_a_merged_manifest_says_something_else_counts_as_changed():
    made = RandomManifests(random.Random(2))
    partition, bucket, total, file = made.files[0]
    entry = ManifestEntry(FileKind.ADD, partition, bucket, total, replace(file, row_count=5))
    other = replace(entry, file=replace(file, row_count=7))
    live = CurrentFiles(lambda manifest: made.entries[manifest.name])
    live.move_to([made.manifest([entry])])

    change = live.move_to([made.manifest([other])])

    assert (change.added, live.rows) == ([other], 7)
