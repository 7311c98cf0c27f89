"""Small tables with a history, and one action on each: what fault tests and crash tests run.

A scenario's action may be repeated with the same commit user, as a job that died is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_engine import AddColumn, SetOption
from paimon_engine.action_table import Action
from paimon_engine.actions.alter_table import AlterTable
from paimon_engine.actions.analyze import Analyze
from paimon_engine.actions.branches import CreateBranch, DeleteBranch, FastForward, RenameBranch
from paimon_engine.actions.cluster import Cluster
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.compact_chain_table import CompactChainTable
from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.actions.compatibility import Compatibility
from paimon_engine.actions.consumers import ClearConsumers, ExpireConsumers, ResetConsumer
from paimon_engine.actions.create_due_tags import CreateDueTags
from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.actions.drop_partition import DropPartition, ExpirePartitions
from paimon_engine.actions.expire_changelogs import ExpireChangelogs
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.export_files import ExportFiles
from paimon_engine.actions.mark_partition_done import MarkPartitionDone
from paimon_engine.actions.merge_branch import MergeBranch
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles
from paimon_engine.actions.remove_unexisting_manifests import RemoveUnexistingManifests
from paimon_engine.actions.repair_earliest_snapshot import RepairEarliestSnapshot
from paimon_engine.actions.rescale import Rescale
from paimon_engine.actions.restore import EmptyQuarantine, Restore
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag
from paimon_engine.actions.verify import Verify
from tests.support.world.world import HOUR_MS, MAIN, ROOT, START_MS, World, rows_of


@dataclass(frozen=True)
class Scenario:
    """`prepare` makes the table, `act` is what may fail, and be repeated.

    `takes_back`: a certain failure leaves no file that nothing needs. `passes_through`: where it is interrupted, rows
    may be those of any snapshot that it removes one by one.
    """

    name: str
    prepare: Callable[[World], None]
    act: Callable[[World], Any]
    takes_back: bool = False
    passes_through: bool = False


# ── tables ──────────────────────────────────────────────────────────────────────────────────────


def keyed(world: World, **options: Any) -> None:
    """Five commits to two partitions of a table with a primary key; a tag in the middle."""
    world.create(keys=("p", "k"), **{"bucket": 1, "manifest__merge_min_count": 3, **options})
    _fill(world)


def _fill(world: World) -> None:
    world.write({1: 1, 2: 1, 3: 1})
    world.write({2: 2, 4: 2})
    world.table().create_tag("middle")
    world.write({3: 3, 5: 3}, "b")
    world.write({1: 4, 5: 4})
    world.write({3: 5, 6: 5}, "b")


def appended(world: World, **options: Any) -> None:
    world.create(**{"bucket": -1, **options})
    _fill(world)


def _evolved(world: World) -> None:
    appended(world, row_tracking__enabled="true", data_evolution__enabled="true")
    world.table().compact(full=True)
    world.write({1: 6, 9: 6})
    world.table().compact(full=True)
    world.write({1: 7})


def _with_blobs(world: World) -> None:
    """Each write makes a file of the BLOB column, too."""
    appended(world, row_tracking__enabled="true", data_evolution__enabled="true")
    world.table().alter([AddColumn("b", "BLOB")])
    world.write({7: 7})


def compacted(world: World, **options: Any) -> None:
    """Old snapshots reach files that newer ones do not."""
    keyed(world, **options)
    world.table().compact(full=True)
    world.write({1: 6, 9: 6})
    world.table().compact(full=True)
    world.write({1: 7})


def tagged(world: World) -> None:
    compacted(world, tag__default_time_retained="1 h")
    world.table().create_tag("newest")
    world.table().expire_snapshots(retain_max=2, retain_min=1, older_than=world.now_ms)
    world.now_ms += 48 * HOUR_MS


def branched(world: World) -> None:
    compacted(world)
    table = world.table()
    table.create_tag("origin", snapshot=6)
    table.create_branch("b", tag="origin")
    world.write({1: 100, 50: 100}, branch="b")
    world.write({2: 101, 51: 101}, branch="b")
    world.table("b").compact(full=True)


def chained(world: World) -> None:
    """A chain table: a complete partition in one branch, the changes of two others in another one."""
    times = {"partition__timestamp_pattern": "$p", "partition__timestamp_formatter": "yyyyMMdd"}
    world.create(keys=("p", "k"), bucket=1, chain_table__enabled="true", sequence__field="v", **times)
    branches = {"scan.fallback-snapshot-branch": "full", "scan.fallback-delta-branch": "delta"}
    for name in branches.values():
        world.table().create_branch(name)
    for name in (MAIN, *branches.values()):
        world.table(name).alter([SetOption(*item) for item in branches.items()])
    world.write({1: 1, 2: 1}, "20200101", branch="full")
    world.write({2: 2, 3: 2}, "20200102", branch="delta")
    world.write({4: 3}, "20200103", branch="delta")


def consumed(world: World) -> None:
    keyed(world)
    for name, number in (("one", 2), ("two", 3)):
        world.table().reset_consumer(name, number)
    world.now_ms += HOUR_MS


def littered(world: World) -> None:
    """With files that nothing needs."""
    keyed(world)
    world.table().create_tag("last")
    for number in range(3):
        world.inner.overwrite(f"{ROOT}/p=a/bucket-0/data-lost-{number}.parquet", b"lost")
        world.inner.overwrite(f"{ROOT}/manifest/manifest-lost-{number}", b"lost")
    world.now_ms += 48 * HOUR_MS


def rescaled(world: World) -> None:
    keyed(world)
    world.run(AlterTable([SetOption("bucket", "2")]), "alter")


def indexed(world: World) -> None:
    appended(world)
    change = SetOption("file-index.bloom-filter.columns", "k")
    world.run(AlterTable([change]), "alter")


def diverged(world: World) -> None:
    """A branch and the table that it was made of both have newer snapshots."""
    appended(world)
    world.table().create_branch("b", tag="middle")
    world.write({50: 100}, branch="b")
    world.write({51: 101}, "b", branch="b")
    world.write({52: 6})


def long_read(world: World) -> None:
    """Changelogs outlive their snapshots."""
    compacted(world, changelog_producer="input", changelog__num_retained__min=20, snapshot__num_retained__min=1)
    world.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)


def set_aside(world: World) -> None:
    """What an expiry and a deleted tag took is in quarantines."""
    compacted(world)
    world.table().expire_snapshots(retain_max=2, retain_min=1, older_than=world.now_ms, quarantine=True)
    world.table().delete_tag("middle", quarantine=True)


def without_files(world: World) -> None:
    """The only snapshot lacks a data file."""
    compacted(world)
    world.table().delete_tag("middle")
    world.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)
    world.inner.delete([world.table().files()["file_path"].to_pylist()[0]])


def without_manifests(world: World) -> None:
    """The latest snapshot lacks a manifest."""
    keyed(world, manifest__merge_min_count=100)
    manifests = [info for info in world.inner.walk(f"{ROOT}/manifest") if "manifest-list-" not in info.path]
    world.inner.delete([max(manifests, key=lambda info: (info.modified_ms, info.path)).path])


def with_a_gap(world: World) -> None:
    """A snapshot in the middle is missing."""
    keyed(world)
    world.inner.delete([f"{ROOT}/snapshot/snapshot-3"])


# ── actions ─────────────────────────────────────────────────────────────────────────────────────


def _write(p: str = "a", **kwargs: Any) -> Callable[[World], Any]:
    return lambda world: world.table().write(rows_of({1: 99, 7: 99}, p), commit_user="job", **kwargs)


def _job(spec: Action) -> Callable[[World], Any]:
    return lambda world: world.run(spec)


def _with(prepare: Callable[..., None], **options: Any) -> Callable[[World], None]:
    return lambda world: prepare(world, **options)


def _orphans(*, quarantine: bool) -> Callable[[World], Any]:
    return lambda world: world.run(RemoveOrphanFiles(world.now_ms - HOUR_MS, quarantine=quarantine))


def quarantines(world: World) -> list[str]:
    """Names of those that are there, even if the world's storage hides them; the newest first, as they can be restored."""
    inside = {info.path.removeprefix(f"{ROOT}/quarantine/") for info in world.inner.walk(f"{ROOT}/quarantine")}
    return sorted({path.partition("/")[0] for path in inside if "/" in path}, reverse=True)


def _each_quarantine(spec: Callable[[str], Action]) -> Callable[[World], Any]:
    return lambda world: [world.run(spec(name)) for name in quarantines(world)]


def _expire(**kwargs: Any) -> Callable[[World], Any]:
    return lambda world: world.run(ExpireSnapshots(retain_min=1, older_than=world.now_ms, **kwargs))


def outside(world: World) -> str:
    """A place beside the table, for files of other programs."""
    return f"{world.root.rpartition('/')[0]}/exported"


def _export(**kwargs: Any) -> Callable[[World], Any]:
    return lambda world: world.run(ExportFiles(outside(world), if_exists="replace", **kwargs))


def _across(world: World) -> None:
    """Keys that are unique over all partitions, and move."""
    world.create(keys=("k",), bucket=-1)
    world.write({1: 1, 2: 1, 7: 1}, "a")
    world.write({2: 2, 4: 2}, "b")


def _postponed(world: World) -> None:
    world.create(keys=("p", "k"), bucket=-2, postpone__default_bucket_num=1)
    world.write({1: 1, 2: 1})
    world.write({2: 2, 4: 2})
    world.write({3: 3}, "b")


def _two_commits_of_one_job(world: World) -> Any:
    """Writes, deletes and tidies under one name."""
    world.table().write(rows_of({1: 99, 7: 99}), commit_user="job")
    world.run(CompactManifests())
    return world.run(Compact(full=True))


def _update_columns(world: World) -> Any:
    """New values for some rows, of files that a compaction has made and of one that came later."""
    rows = pa.table({"_ROW_ID": [0, 3, 11], "v": pa.array([70, 71, 72], pa.int64())})
    return world.table().update_columns(rows, commit_user="job")


def _update_blobs(world: World) -> Any:
    """New values of a BLOB column: of rows that have one, and of rows from before the column was added."""
    rows = pa.table({"_ROW_ID": [0, 11], "b": [b"first", b"second"], "v": pa.array([70, 71], pa.int64())})
    return world.table().update_columns(rows, commit_user="job")


def _expire_partitions(world: World) -> Any:
    return world.run(ExpirePartitions("1 d", timestamp_formatter="yyyyMMdd"))


def _dated(world: World) -> None:
    world.create(keys=("p", "k"), bucket=1)
    for p in ("20200101", "20200102", "20990101"):
        world.write({1: 1, 2: 1}, p)


_DYNAMIC = {"bucket": -1, "dynamic_bucket__target_row_num": 2}
_VECTORS = {"deletion_vectors__enabled": "true"}
_LOOKUP = {"changelog_producer": "lookup"}
_SNAPSHOT_ORDER = {"sequence__snapshot_ordering": "true", "write_only": "true"}
_EVOLUTION = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}

SCENARIOS = (
    Scenario("append rows", _with(keyed), _write(), takes_back=True),
    Scenario("append rows with a changelog", _with(keyed, changelog_producer="input"), _write(), takes_back=True),
    Scenario("append without keys", _with(appended), _write(), takes_back=True),
    Scenario("append to dynamic buckets", _with(keyed, **_DYNAMIC), _write(), takes_back=True),
    Scenario("move keys between partitions", _across, _write("b"), takes_back=True),
    Scenario("overwrite partitions", _with(keyed), _write(overwrite={}), takes_back=True),
    Scenario("overwrite a partition", _with(keyed), _write("b", overwrite={"p": "b"}), takes_back=True),
    Scenario(
        "overwrite everything",
        _with(keyed, dynamic_partition_overwrite="false"),
        _write(overwrite={}),
        takes_back=True,
    ),
    Scenario("compact fully", _with(keyed), _job(Compact(full=True)), takes_back=True),
    Scenario("compact in rounds", _with(keyed), _job(Compact(full=True, round_bytes=1)), takes_back=True),
    Scenario(
        "compact some runs",
        _with(keyed, num_sorted_run__compaction_trigger=2),
        _job(Compact()),
        takes_back=True,
    ),
    Scenario("compact with a changelog", _with(keyed, **_LOOKUP), _job(Compact(full=True)), takes_back=True),
    Scenario("compact with deletion vectors", _with(keyed, **_VECTORS), _job(Compact()), takes_back=True),
    Scenario("compact without keys", _with(appended), _job(Compact(full=True)), takes_back=True),
    Scenario("append rows that snapshots order", _with(keyed, **_SNAPSHOT_ORDER), _write(), takes_back=True),
    Scenario(
        "compact rows that snapshots order", _with(keyed, **_SNAPSHOT_ORDER), _job(Compact(full=True)), takes_back=True
    ),
    Scenario("append with data evolution", _with(appended, **_EVOLUTION), _write(), takes_back=True),
    Scenario("update columns", _evolved, _update_columns, takes_back=True),
    Scenario("update values of a BLOB column", _with_blobs, _update_blobs, takes_back=True),
    Scenario("append with values of a BLOB column", _with_blobs, _write(), takes_back=True),
    Scenario("compact with data evolution", _with(appended, **_EVOLUTION), _job(Compact(full=True)), takes_back=True),
    Scenario("expire snapshots with data evolution", _evolved, _expire(retain_max=2)),
    Scenario("compact a chain table", chained, _job(CompactChainTable([{"p": "20200103"}])), takes_back=True),
    Scenario("cluster", _with(appended), _job(Cluster(("k", "v"))), takes_back=True),
    Scenario("compact postponed rows", _postponed, _job(Compact(full=True)), takes_back=True),
    Scenario(
        "compact in the order of another column",
        _with(compacted, **_VECTORS, pk_clustering_override="true", clustering__columns="v"),
        _job(Compact(full=True)),
        takes_back=True,
    ),
    Scenario("delete rows", _with(appended, **_VECTORS), _job(DeleteRows("k < 4")), takes_back=True),
    Scenario(
        "delete rows with data evolution",
        _with(appended, **_VECTORS, **_EVOLUTION),
        _job(DeleteRows("k < 4")),
        takes_back=True,
    ),
    Scenario("rescale", rescaled, _job(Rescale()), takes_back=True),
    Scenario("rewrite file indexes", indexed, _job(RewriteFileIndex()), takes_back=True),
    Scenario("compact manifests", _with(keyed), _job(CompactManifests()), takes_back=True),
    Scenario("analyze", _with(keyed), _job(Analyze()), takes_back=True),
    Scenario("write, tidy and compact", _with(keyed), _two_commits_of_one_job),
    Scenario("create a tag", _with(keyed), _job(CreateTag("new", 3))),
    Scenario("replace a tag", tagged, _job(CreateTag("middle", if_exists="replace"))),
    Scenario("rename a tag", tagged, _job(RenameTag("middle", "centre"))),
    Scenario("delete a tag", tagged, _job(DeleteTag("middle"))),
    Scenario("expire tags", tagged, _job(ExpireTags())),
    Scenario(
        "create due tags",
        _with(keyed, tag__automatic_creation="process-time", tag__creation_period="hourly", tag__num_retained_max=1),
        _job(CreateDueTags()),
    ),
    Scenario("expire snapshots", _with(compacted), _expire(retain_max=2)),
    Scenario("expire snapshots with changelogs", _with(compacted, **_LOOKUP), _expire(retain_max=1)),
    Scenario("expire changelogs", long_read, _job(ExpireChangelogs(retain_max=2, retain_min=1))),
    Scenario("roll back to a snapshot", _with(compacted), _job(Rollback(4)), passes_through=True),
    Scenario("roll back to a tag that has expired", tagged, _job(Rollback(tag="middle")), passes_through=True),
    Scenario("roll back as the latest", _with(compacted), _job(RollbackToAsLatest(3))),
    Scenario("create a branch of a tag", _with(compacted), _job(CreateBranch("b", "middle", if_exists="ignore"))),
    Scenario("create a branch of a snapshot", _with(compacted), _job(CreateBranch("b", None, 5, "ignore"))),
    Scenario("rename a branch", branched, _job(RenameBranch("b", "c"))),
    Scenario("delete a branch", branched, _job(DeleteBranch("b"))),
    Scenario("merge a branch", diverged, _job(MergeBranch("b")), takes_back=True),
    Scenario("fast-forward", branched, _job(FastForward("b")), passes_through=True),
    Scenario("drop partitions", _with(keyed), _job(DropPartition([{"p": "a"}]))),
    Scenario("expire partitions", _dated, _expire_partitions),
    Scenario("mark partitions done", _with(keyed), _job(MarkPartitionDone([{"p": "a"}]))),
    Scenario("remove orphan files", littered, _orphans(quarantine=False)),
    Scenario("quarantine orphan files", littered, _orphans(quarantine=True)),
    Scenario("restore quarantines", set_aside, _each_quarantine(lambda name: Restore(quarantine=name))),
    Scenario("empty quarantines", set_aside, _each_quarantine(EmptyQuarantine)),
    Scenario("purge", tagged, _job(PurgeFiles(keep_tags=True))),
    Scenario("verify", branched, _job(Verify("rows"))),
    Scenario("report on readers", branched, _job(Compatibility())),
    Scenario("export to a file", tagged, _export(tag="middle")),
    Scenario("export to a directory", _with(keyed), _export(partition_by=["p"])),
    Scenario("alter the schema", _with(keyed), _job(AlterTable([AddColumn("w", "INT")]))),
    Scenario("reset a consumer", consumed, _job(ResetConsumer("one", 4))),
    Scenario("clear consumers", consumed, _job(ClearConsumers("t.*"))),
    Scenario("expire consumers", consumed, _job(ExpireConsumers(START_MS + 7 * HOUR_MS))),
)
REPAIRS = (
    Scenario("remove unexisting files", without_files, _job(RemoveUnexistingFiles())),
    Scenario("remove unexisting manifests", without_manifests, _job(RemoveUnexistingManifests())),
    Scenario("repair the earliest snapshot", with_a_gap, _job(RepairEarliestSnapshot(4))),
)
"""Tables that have lost files already: they are not valid before the action."""
BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, *REPAIRS)}
