"""Of any part of a table that is visible, an action deletes nothing that the whole table can reach.

`python -m tests.partial_views` tries every part; here it is every so many.
"""

from __future__ import annotations

import pytest

from tests.partial_views.subjects import SUBJECTS, files_of, whole, world_of
from tests.partial_views.trial import DEEDS, FAR_MS, LOOKING, can_know, run_trial
from tests.partial_views.views import View, views

CONFIRMED = "remove_orphan_files, confirmed"
"""Only some views leave a trace that no confirmation overrules; they have a separate test."""
OTHERS = tuple(deed for deed in DEEDS if deed not in (*LOOKING, CONFIRMED))


@pytest.mark.parametrize("deed", LOOKING)
@pytest.mark.parametrize("subject", ["keyed", "changelogs"])
def test_what_the_complete_table_needs_stays(subject: str, deed: str) -> None:
    _try(subject, deed, every=8)


@pytest.mark.parametrize("deed", OTHERS)
def test_no_other_action_deletes_what_the_complete_table_needs(deed: str) -> None:
    _try("keyed", deed, every=30)


def test_a_repair_of_the_earliest_snapshot_deletes_nothing_that_a_snapshot_out_of_sight_needs() -> None:
    _try("never expired", "repair_earliest_snapshot", every=1)


@pytest.mark.parametrize(
    "deed", ["restore", "restore as tags", "empty_quarantine", "delete_tag", "remove_orphan_files"]
)
def test_what_was_moved_aside_stays_until_it_is_brought_back(deed: str) -> None:
    _try("set aside", deed, every=12)


@pytest.mark.parametrize("deed", ["expire_snapshots", "delete_branch", "rollback to a tag", "remove_orphan_files"])
def test_finishing_an_interrupted_run_deletes_nothing_that_is_needed(deed: str) -> None:
    _try("interrupted", deed, every=8)


def _try(subject: str, deed: str, *, every: int) -> None:
    paths = sorted(whole(subject).files)
    tried = 0
    for view in views(paths, seeds=range(2), every=every):
        if not can_know(deed, view, paths):
            continue
        outcome = run_trial(subject, view, deed)
        assert outcome.lost == (), f"{view.name}: {outcome.message}"
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name not in ("set aside", "interrupted")])
def test_a_complete_table_is_cleaned(subject: str) -> None:
    table = whole(subject)
    world = world_of(table.files, table.now_ms)
    dead = {"p=a/bucket-0/data-dead-0.parquet", "bucket-0/data-dead-0.parquet", "manifest/manifest-dead-0"}
    for path in dead:
        world.inner.overwrite(f"{world.root}/{path}", b"dead")
    if world.handle.schema.partition_keys:
        dead -= {"bucket-0/data-dead-0.parquet"}
    else:
        dead -= {"p=a/bucket-0/data-dead-0.parquet"}
    world.now_ms += 1
    world.write({77: 7})
    before = files_of(world.inner)
    world.now_ms += FAR_MS

    result = world.table().remove_orphan_files(world.now_ms)

    assert (result.status, result.stopped) == ("deleted", ())
    gone = before.keys() - files_of(world.inner).keys()
    assert {path for path in gone if not path.startswith("commits/")} == dead


def test_a_tag_is_not_used_for_a_time_whose_snapshots_are_not_visible() -> None:
    paths = whole("changelogs").files.keys()
    view = View("without the first snapshots", frozenset(paths - {"snapshot/snapshot-7", "snapshot/snapshot-8"}))

    outcome = run_trial("changelogs", view, "rollback to a time")

    assert "snapshots between 2 and 9" in outcome.message
    assert outcome.lost == ()


def test_a_gap_in_the_snapshots_stops_a_clean_up_although_the_latest_one_is_confirmed() -> None:
    paths = whole("never expired").files.keys()
    hidden = sorted(path for path in paths if path.startswith("snapshot/snapshot-"))[1:-1]
    assert len(hidden) == 4
    for path in hidden:
        outcome = run_trial("never expired", View(f"without {path}", frozenset(paths - {path})), CONFIRMED)

        assert "the snapshots between them are missing" in outcome.message
        assert outcome.lost == ()


@pytest.mark.parametrize("deed", ["expire_snapshots", "purge_files, keeping", "repair to the latest"])
def test_files_of_snapshots_that_a_branch_lacks_stay(deed: str) -> None:
    """The branch's hint to its earliest snapshot shows that some of its snapshots are missing."""
    paths = whole("branched").files.keys()
    snapshots = sorted(path for path in paths if path.startswith("branch/branch-b/snapshot/snapshot-"))
    assert len(snapshots) == 2
    hidden = {snapshots[0], *(["snapshot/snapshot-4"] if deed.startswith("repair") else [])}

    outcome = run_trial("branched", View("the newest one of b only", frozenset(paths - hidden)), deed)

    assert outcome.lost == (), outcome.message
    assert "stopped" in outcome.message


@pytest.mark.parametrize("deed", ["expire_snapshots of a branch", "delete_branch", "remove_orphan_files"])
def test_a_main_out_of_sight_keeps_what_it_shares_with_a_branch(deed: str) -> None:
    """A copy in the order of paths has branches and data files before the snapshots of main."""
    paths = whole("branched").files.keys()
    hidden = {path for path in paths if path.startswith("snapshot/")}

    outcome = run_trial("branched", View("without main's snapshots", frozenset(paths - hidden)), deed)

    assert outcome.lost == (), outcome.message
    assert "stopped" in outcome.message
