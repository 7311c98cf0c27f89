from __future__ import annotations

import inspect
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.branches import (
    PaimonCreateBranchOperator,
    PaimonDeleteBranchOperator,
    PaimonFastForwardOperator,
    PaimonMergeBranchOperator,
    PaimonRenameBranchOperator,
)
from airflow_provider_paimon.operators.clean_up import (
    PaimonCompatibilityOperator,
    PaimonRemoveOrphanFilesOperator,
    PaimonVerifyOperator,
)
from airflow_provider_paimon.operators.cluster import PaimonClusterOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.consumers import (
    PaimonClearConsumersOperator,
    PaimonExpireConsumersOperator,
    PaimonResetConsumerOperator,
)
from airflow_provider_paimon.operators.delete import PaimonDeleteRowsOperator
from airflow_provider_paimon.operators.expire import PaimonExpireChangelogsOperator, PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.file_index import PaimonRewriteFileIndexOperator
from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonJobOperator, commit_user_of, xcom_of
from airflow_provider_paimon.operators.metadata import PaimonAnalyzeOperator, PaimonCompactManifestsOperator
from airflow_provider_paimon.operators.partitions import (
    PaimonDropPartitionOperator,
    PaimonExpirePartitionsOperator,
    PaimonMarkPartitionDoneOperator,
)
from airflow_provider_paimon.operators.repair import (
    PaimonEmptyQuarantineOperator,
    PaimonPurgeFilesOperator,
    PaimonRemoveUnexistingFilesOperator,
    PaimonRemoveUnexistingManifestsOperator,
    PaimonRepairEarliestSnapshotOperator,
    PaimonRestoreOperator,
)
from airflow_provider_paimon.operators.rescale import PaimonRescaleOperator
from airflow_provider_paimon.operators.rollback import PaimonRollbackOperator, PaimonRollbackToAsLatestOperator
from airflow_provider_paimon.operators.tags import (
    PaimonCreateDayTagsOperator,
    PaimonCreateDueTagsOperator,
    PaimonCreateTagOperator,
    PaimonDeleteTagOperator,
    PaimonExpireTagsOperator,
    PaimonRenameTagOperator,
)
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog, SetOption
from paimon_engine.jobs import ACTIONS, Job, JobResult
from paimon_engine.specs import fields_of
from tests.provider.conftest import SCHEMA, TABLE, make_context, rows, set_time


@pytest.fixture
def operator(warehouse: str):
    def make(kind: type[PaimonJobOperator], **fields):
        return kind(**{"task_id": "task", "table": TABLE, "warehouse": warehouse, "launcher": "in_process", **fields})

    return make


def ids(catalog: Catalog, **when) -> list[int]:
    return sorted(catalog.table(TABLE).to_arrow(**when)["id"].to_pylist())


# ── what operators do ───────────────────────────────────────────────────────────────────────────


def test_write(catalog: Catalog, operator, source: str, context):
    result = operator(PaimonWriteOperator, source=source).execute(context)

    assert (result["status"], result["snapshot_id"], result["details"]["rows"]) == ("committed", 4, 2)
    assert ids(catalog) == [1, 2, 3, 10, 11]


def test_write_creates_the_table(warehouse: str, operator, source: str, context):
    create = {"primary_keys": ["id"], "options": {"bucket": 2}}

    result = operator(PaimonWriteOperator, source=[source], create=create).execute(context)

    table = Catalog(warehouse).table(TABLE)
    assert result["status"] == "committed"
    assert list(table.schema.primary_keys) == ["id"]
    assert table.schema.options["bucket"] == "2"


def test_overwrite(catalog: Catalog, operator, source: str, context):
    operator(PaimonWriteOperator, source=source, overwrite={}).execute(context)

    assert ids(catalog) == [10, 11]


def test_a_repeated_write_finds_its_own_commit(catalog: Catalog, operator, source: str):
    first = operator(PaimonWriteOperator, source=source).execute(make_context())
    again = operator(PaimonWriteOperator, source=source).execute(make_context())
    other = operator(PaimonWriteOperator, source=source).execute(make_context(run_id="manual__2"))

    assert [item["status"] for item in (first, again, other)] == ["committed", "already_done", "committed"]
    assert again["snapshot_id"] == first["snapshot_id"] == 4
    assert other["snapshot_id"] == 5


def test_rewrite_file_index(catalog: Catalog, operator, context):
    options = {"file-index.bitmap.columns": "id"}
    planned = operator(PaimonRewriteFileIndexOperator, dry_run="True", table_options=options).execute(context)
    result = operator(PaimonRewriteFileIndexOperator, table_options=options).execute(context)

    assert planned["status"] == "dry_run"
    assert result["details"]["files_indexed"] == planned["details"]["files_indexed"] > 0
    assert ids(catalog) == [1, 2, 3]


def test_compact(catalog: Catalog, operator, context):
    planned = operator(PaimonCompactOperator, full="True", dry_run=True).execute(context)
    result = operator(PaimonCompactOperator, full=True).execute(context)

    assert planned["status"] == "dry_run"
    assert result["status"] == "committed"
    assert result["details"]["files_before"] > result["details"]["files_after"] == 1
    assert ids(catalog) == [1, 2, 3]


def test_a_compaction_keeps_to_limits_that_templates_gave(catalog: Catalog, operator, context):
    limits = {"max_bytes": "1", "max_buckets": "3", "max_seconds": "60", "round_bytes": "1 gb", "task_bytes": "512 mb"}
    choice = {"buckets": "0", "partition_idle_time": "None", "task_memory_bytes": 1 << 30}

    result = operator(PaimonCompactOperator, full=True, **limits, **choice).execute(context)
    other = operator(PaimonCompactOperator, full=True, buckets=["7", 8]).execute(context)

    assert (result["status"], result["details"]["buckets_left"]) == ("noop", 1)
    assert other["details"]["buckets"] == []
    assert catalog.table(TABLE).latest_snapshot_id() == 3


@pytest.mark.parametrize("fields", [{"max_bytes": "much"}, {"max_seconds": "soon"}, {"buckets": "one"}])
def test_a_limit_that_is_no_number_is_named(catalog: Catalog, operator, context, fields):
    with pytest.raises(AirflowFailException, match=next(iter(fields))):
        operator(PaimonCompactOperator, **fields).execute(context)


def test_a_tag_is_named_for_the_day_of_the_run(catalog: Catalog, operator, context):
    for snapshot in (1, 2, 3):
        set_time(catalog.table(TABLE), snapshot, datetime(2013, 1, 5, snapshot, tzinfo=UTC))
    result = operator(PaimonCreateTagOperator, time_retained="365 d").execute(context)
    again = operator(PaimonCreateTagOperator).execute(context)

    assert (result["status"], result["details"]["tag"], result["snapshot_id"]) == ("created", "2013-01-05", 3)
    assert again["status"] == "already_done"
    assert PaimonHook(warehouse=catalog.warehouse).tags(TABLE) == {"2013-01-05": 3}


def test_a_tag_of_a_snapshot_given_as_text(catalog: Catalog, operator, context):
    result = operator(PaimonCreateTagOperator, tag="old", snapshot="2").execute(context)

    assert result["snapshot_id"] == 2
    assert ids(catalog, tag="old") == [1, 2]


def test_a_name_that_is_taken_fails_at_once(catalog: Catalog, operator, context):
    """Another attempt finds it taken, too."""
    table = catalog.table(TABLE)
    table.create_tag("2013-01-05", snapshot=1)
    table.create_branch("dev")
    taken = ["create_branch", {"branch": "dev"}], ["create_tag", {"tag": "2013-01-05", "if_exists": "error"}]

    with pytest.raises(AirflowFailException, match="2013-01-05"):
        operator(PaimonCreateTagOperator, snapshot=2).execute(context)
    for action, given in taken:
        with pytest.raises(AirflowFailException, match="exists already"):
            operator(PaimonJobOperator, action=action, arguments=given).execute(context)


def test_rescale(catalog: Catalog, operator, context):
    catalog.alter_table(TABLE, [SetOption("bucket", "3")])

    planned = operator(PaimonRescaleOperator, dry_run="True").execute(context)
    result = operator(PaimonRescaleOperator).execute(context)

    assert (planned["status"], result["status"]) == ("dry_run", "committed")
    assert set(catalog.table(f"{TABLE}$buckets").to_arrow()["bucket"].to_pylist()) <= {0, 1, 2}


def test_cluster(catalog: Catalog, operator, context):
    table = catalog.create_table("air.log", schema=SCHEMA, options={"bucket": "-1"})
    for number in (2, 3, 1):
        table.write(rows(number))

    planned = operator(PaimonClusterOperator, table="air.log", columns="id", dry_run="True").execute(context)
    result = operator(PaimonClusterOperator, table="air.log", columns=["id"], max_bytes="1 gb").execute(context)

    assert (planned["status"], result["status"]) == ("dry_run", "committed")
    assert (result["details"]["files_before"], result["details"]["files_after"]) == (3, 1)
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_delete_tag(catalog: Catalog, operator, context):
    catalog.table(TABLE).create_tag("old", snapshot=1)

    assert operator(PaimonDeleteTagOperator, tag="old").execute(context)["status"] == "deleted"
    assert operator(PaimonDeleteTagOperator, tag="old").execute(context)["status"] == "already_done"


def test_expire(catalog: Catalog, operator, context):
    catalog.table(TABLE).create_tag("kept", snapshot=1)
    fields = {"retain_max": "1", "retain_min": 1, "older_than": timedelta(0)}

    planned = operator(PaimonExpireSnapshotsOperator, dry_run="true", **fields).execute(context)
    result = operator(PaimonExpireSnapshotsOperator, **fields).execute(context)

    assert planned["status"] == "dry_run"
    assert result["details"]["expired_snapshots"] == planned["details"]["expired_snapshots"] == [1, 2]
    assert ids(catalog, tag="kept") == [1]


def test_changelogs_are_kept_until_they_are_expired(catalog: Catalog, operator, context):
    catalog.table(TABLE).alter([SetOption("changelog.num-retained.min", "20")])
    kept = operator(PaimonExpireSnapshotsOperator, retain_max=1).execute(context)

    planned = operator(PaimonExpireChangelogsOperator, delete_all="true", dry_run=True).execute(context)
    result = operator(PaimonExpireChangelogsOperator, retain_max="2", retain_min=1).execute(context)

    assert kept["details"]["kept_changelogs"] == planned["details"]["expired_changelogs"] == [1, 2]
    assert result["details"]["expired_changelogs"] == [1]


def test_rollback(catalog: Catalog, operator, context):
    operator(PaimonRollbackOperator, snapshot="2").execute(context)

    assert ids(catalog) == [1, 2]


def test_a_tag_of_a_time_renamed_and_expired(catalog: Catalog, operator, context):
    first = catalog.table(TABLE).snapshots()["commit_time"].cast("int64").to_pylist()[0]

    made = operator(PaimonCreateTagOperator, tag="old", timestamp=str(first), time_retained="1 ms").execute(context)
    renamed = operator(PaimonRenameTagOperator, tag="old", to="older").execute(context)
    planned = operator(PaimonExpireTagsOperator, older_than="0 d", dry_run="true").execute(context)
    result = operator(PaimonExpireTagsOperator).execute(context)

    assert (made["snapshot_id"], renamed["status"]) == (1, "renamed")
    assert list(planned["details"]["expired"]) == list(result["details"]["expired"]) == ["older"]
    assert operator(PaimonCreateDueTagsOperator).execute(context)["status"] == "noop"


def test_an_earlier_snapshot_as_the_latest(catalog: Catalog, operator, context):
    result = operator(PaimonRollbackToAsLatestOperator, snapshot="1").execute(context)
    again = operator(PaimonRollbackToAsLatestOperator, snapshot="1").execute(context)

    assert (result["status"], again["status"]) == ("committed", "already_done")
    assert result["snapshot_id"] == again["snapshot_id"] == 4
    assert ids(catalog) == [1]


def test_branches(catalog: Catalog, operator, context):
    operator(PaimonCreateBranchOperator, branch="dev", snapshot="1").execute(context)
    operator(PaimonRenameBranchOperator, branch="dev", to="next").execute(context)
    forwarded = operator(PaimonFastForwardOperator, branch="next").execute(context)
    deleted = operator(PaimonDeleteBranchOperator, branch="next").execute(context)

    assert (forwarded["details"]["removed_snapshots"], deleted["status"]) == ([2, 3], "deleted")
    assert ids(catalog) == [1]


def test_a_retry_finds_what_was_restored(catalog: Catalog, operator):
    """The answer of the first attempt was lost: the second one failed, since there is no such quarantine any more."""
    done = operator(PaimonRollbackOperator, snapshot=1, quarantine=True).execute(make_context("rollback"))
    name = done["details"]["quarantine"]

    first = operator(PaimonRestoreOperator, quarantine=name).execute(make_context("restore"))
    again = operator(PaimonRestoreOperator, quarantine=name).execute(make_context("restore"))

    assert (first["status"], again["status"]) == ("restored", "already_done")
    assert again["details"]["snapshots"] == first["details"]["snapshots"] == [2, 3]
    assert ids(catalog) == [1, 2, 3]
    with pytest.raises(AirflowFailException, match="no quarantine 'other'"):
        operator(PaimonRestoreOperator, quarantine="other").execute(make_context("restore"))


def test_the_name_of_a_table_may_name_its_branch(catalog: Catalog, operator, source: str, context):
    operator(PaimonCreateBranchOperator, branch="dev", snapshot="3").execute(context)
    branch = {"table": f"{TABLE}$branch_dev"}

    result = operator(PaimonWriteOperator, source=source, **branch).execute(context)
    operator(PaimonCreateTagOperator, tag="done", **branch).execute(make_context("another"))

    assert (result["status"], result["table"], result["snapshot_id"]) == ("committed", f"{TABLE}$branch_dev", 4)
    on_branch = catalog.table(f"{TABLE}$branch_dev")
    assert sorted(on_branch.to_arrow(tag="done")["id"].to_pylist()) == [1, 2, 3, 10, 11]
    assert ids(catalog) == [1, 2, 3]
    assert catalog.table(TABLE).tag_names() == []
    with pytest.raises(AirflowFailException, match="system table, which can only be read"):
        operator(PaimonCompactOperator, table=f"{TABLE}$files").execute(context)
    path = f"{catalog.table(TABLE).path}/branch/branch-dev"
    with pytest.raises(AirflowFailException, match="option branch='dev'"):
        operator(PaimonCompactOperator, table=path).execute(context)


def test_a_branch_is_merged(catalog: Catalog, operator, context):
    operator(PaimonCreateBranchOperator, branch="dev", snapshot="3").execute(context)

    assert operator(PaimonMergeBranchOperator, branch="dev").execute(context)["status"] == "noop"


def test_consumers(catalog: Catalog, operator, context):
    assert operator(PaimonResetConsumerOperator, consumer="c", next_snapshot="2").execute(context)["status"] == "reset"
    assert operator(PaimonExpireConsumersOperator, older_than="1 d").execute(context)["status"] == "noop"
    assert operator(PaimonClearConsumersOperator, excluding="x").execute(context)["details"]["removed"] == ["c"]


def test_manifests_are_rewritten(catalog: Catalog, operator, context):
    planned = operator(PaimonCompactManifestsOperator, dry_run="true").execute(context)
    result = operator(PaimonCompactManifestsOperator).execute(context)

    assert (planned["status"], result["status"]) == ("dry_run", "committed")
    assert result["details"]["manifests_before"] > result["details"]["manifests_after"] == 1
    assert ids(catalog) == [1, 2, 3]


def test_orphan_files_are_removed(catalog: Catalog, operator, context):
    orphan = Path(catalog.table(TABLE).path, "manifest", "manifest-dead-0")
    orphan.write_bytes(b"dead")
    os.utime(orphan, (1, 1))

    planned = operator(PaimonRemoveOrphanFilesOperator, older_than="3 d", dry_run="true").execute(context)
    aside = operator(PaimonRemoveOrphanFilesOperator, quarantine=True).execute(context)
    name = aside["details"]["quarantine"]
    operator(PaimonRestoreOperator, quarantine=name).execute(context)
    assert orphan.read_bytes() == b"dead"
    os.utime(orphan, (1, 1))
    result = operator(PaimonRemoveOrphanFilesOperator).execute(context)

    assert (planned["status"], result["status"]) == ("dry_run", "deleted")
    assert planned["details"]["deleted"] == result["details"]["deleted"]
    assert not orphan.exists()


def test_a_deletion_is_slowed_down_moved_aside_and_undone(catalog: Catalog, operator, context):
    how = {"quarantine": "true", "files_per_second": "1000", "parallelism": "2"}
    expired = operator(PaimonExpireSnapshotsOperator, retain_max=1, retain_min=1, **how).execute(context)
    back = operator(PaimonRestoreOperator, quarantine=expired["details"]["quarantine"]).execute(context)

    assert (expired["status"], back["status"]) == ("expired", "restored")
    assert back["details"]["snapshots"] == expired["details"]["expired_snapshots"] == [1, 2]
    assert operator(PaimonEmptyQuarantineOperator, older_than="1 d").execute(context)["status"] == "noop"


def test_a_table_is_mended(catalog: Catalog, operator, context):
    Path(catalog.table(TABLE).path, "snapshot", "snapshot-2").unlink()
    lost = next(Path(catalog.table(TABLE).path, "bucket-0").iterdir())
    lost.unlink()

    repaired = operator(PaimonRepairEarliestSnapshotOperator, snapshot="3", quarantine=True).execute(context)
    removed = operator(PaimonRemoveUnexistingFilesOperator).execute(context)

    assert repaired["details"]["removed_snapshots"] == [1]
    assert removed["details"]["removed"][0]["path"] == str(lost)
    assert operator(PaimonRemoveUnexistingManifestsOperator, idempotency_key="b").execute(context)["status"] == "noop"
    assert len(ids(catalog)) == 2


def test_a_table_is_purged_once(catalog: Catalog, operator, context):
    planned = operator(PaimonPurgeFilesOperator, dry_run="true").execute(context)
    purged = operator(PaimonPurgeFilesOperator).execute(context)

    assert (planned["status"], purged["status"]) == ("dry_run", "purged")
    assert purged["details"]["removed_snapshots"] == [1, 2, 3, 4]
    assert ids(catalog) == []
    assert operator(PaimonPurgeFilesOperator).execute(context)["status"] == "already_done"


def test_a_valid_table_is_verified_and_a_damaged_one_fails_the_task(catalog: Catalog, operator, context):
    assert operator(PaimonVerifyOperator, depth="rows").execute(context)["status"] == "sound"
    gone = next(Path(catalog.table(TABLE).path, "bucket-0").iterdir())
    gone.unlink()

    with pytest.raises(AirflowFailException, match=f"{gone.name} is missing"):
        operator(PaimonVerifyOperator).execute(context)
    returned = operator(PaimonVerifyOperator, fail_on_problems="false").execute(context)
    assert returned["status"] == "damaged"


def test_engines_that_must_read_a_table_are_named_where_they_do_not(warehouse: str, operator, context):
    Catalog(warehouse).create_table("db.c", schema=pa.schema([("k", pa.int64())]), options={"manifest.format": "orc"})
    found = operator(PaimonCompatibilityOperator, table="db.c", must_read='["Java Paimon 2.0.0"]').execute(context)
    assert found["status"] == "limited"

    with pytest.raises(AirflowFailException, match=r"pypaimon 2\.1\.0: manifests in ORC or Parquet"):
        operator(PaimonCompatibilityOperator, table="db.c", must_read=["pypaimon 2.1.0"]).execute(context)
    with pytest.raises(AirflowFailException, match="there are Java Paimon 0"):
        operator(PaimonCompatibilityOperator, table="db.c", must_read=["Java"]).execute(context)


def test_partitions_are_marked_dropped_and_expired(warehouse: str, operator, context):
    schema = pa.schema([("k", pa.int64()), ("day", pa.string())])
    table = Catalog(warehouse).create_table("db.days", schema=schema, partition_keys=["day"])
    table.write(pa.table({"k": [1, 2, 3], "day": ["2024-01-01", "20240102", "never"]}, schema))
    first = {"table": "db.days", "partitions": [{"day": "2024-01-01"}]}

    marked = operator(PaimonMarkPartitionDoneOperator, **first).execute(context)
    dropped = operator(PaimonDropPartitionOperator, **first).execute(context)
    again = operator(PaimonDropPartitionOperator, **first).execute(context)
    expired = operator(
        PaimonExpirePartitionsOperator,
        table="db.days",
        expiration_time="30 d",
        timestamp_formatter="yyyyMMdd",
        idempotency_key="expiry",
    ).execute(context)

    assert Path(marked["details"]["files"][0]).name == "_SUCCESS"
    assert (dropped["status"], again["status"], expired["status"]) == ("committed", "already_done", "committed")
    assert expired["details"]["partitions"] == [{"day": "20240102"}]
    assert "never" in expired["details"]["stopped"][0]
    assert table.to_arrow()["k"].to_pylist() == [3]


def test_rows_are_deleted(warehouse: str, operator, context):
    table = Catalog(warehouse).create_table(
        "db.log", schema=pa.schema([("k", pa.int64())]), options={"deletion-vectors.enabled": "true"}
    )
    table.write(pa.table({"k": [1, 2, 3]}))

    result = operator(PaimonDeleteRowsOperator, table="db.log", where="k > 1").execute(context)

    assert result["status"] == "committed"
    assert table.to_arrow()["k"].to_pylist() == [1]


def test_a_table_is_analyzed(catalog: Catalog, operator, context):
    result = operator(PaimonAnalyzeOperator, columns=["id"]).execute(context)

    assert result["details"]["rows"] == 3
    assert list(result["details"]["columns"]) == ["id"]


def test_a_write_leaves_watermark_and_properties(catalog: Catalog, operator, source: str):
    operator(PaimonWriteOperator, source=source, watermark="77", properties={"day": "2013-01-05"}).execute(
        make_context()
    )

    assert catalog.table(TABLE).snapshots()["watermark"].to_pylist()[-1] == 77


def test_any_action_by_name(catalog: Catalog, operator, context):
    result = operator(PaimonJobOperator, action="create_tag", arguments={"tag": "t"}).execute(context)

    assert result["status"] == "created"


def test_a_table_in_a_directory(catalog: Catalog, operator, context):
    path = f"{catalog.warehouse}/air.db/flights"

    result = operator(PaimonCreateTagOperator, table=path, warehouse=None, snapshot=3).execute(context)

    assert result["status"] == "created"


# ── errors ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (PaimonCreateTagOperator, {"table": "air.nothing"}, "air.nothing|nothing"),
        (PaimonCreateTagOperator, {"snapshot": "three"}, "snapshot='three'"),
        (PaimonCreateTagOperator, {"snapshot": 77}, "77"),
        (PaimonExpireSnapshotsOperator, {"older_than": "yesterday"}, "an age such as"),
        (PaimonCompactOperator, {"where": "id > 1"}, "partition columns"),
        (PaimonWriteOperator, {"source": "/nowhere/*.parquet"}, "nowhere"),
        (PaimonWriteOperator, {"source": "x", "create": {"primary_key": ["id"]}}, "primary_keys"),
        (PaimonWriteOperator, {"source": "x", "create": {"primary_keys": 7}}, "create: primary_keys=7"),
        (PaimonJobOperator, {"action": "sing"}, "no action 'sing'"),
        (PaimonJobOperator, {"action": "compact", "arguments": {"loudly": True}}, "loudly"),
        (PaimonCompactOperator, {"launcher": "rocket"}, "in_process"),
    ],
)
def test_what_another_attempt_cannot_mend_fails_at_once(catalog, operator, context, kind, fields, message):
    with pytest.raises(AirflowFailException, match=message):
        operator(kind, **fields).execute(context)


def test_a_run_without_a_day_fails_at_once(catalog: Catalog, operator):
    with pytest.raises(AirflowFailException, match="Give tag="):
        operator(PaimonCreateTagOperator).execute(make_context(partition_key=None))


# ── what Airflow sees ───────────────────────────────────────────────────────────────────────────


def test_commit_users_are_those_of_the_task_instance():
    context = make_context()
    context["ti"].try_number = 2
    mapped = make_context()
    mapped["ti"].map_index = 3

    users = [commit_user_of(make_context()), commit_user_of(context), commit_user_of(mapped)]

    assert users[0] == users[1] != users[2]
    # A change of this value would make retries that span an upgrade commit twice.
    assert users[0] == "eeede4df-c4d7-575e-8053-680817efb79a"


def test_an_idempotency_key_is_for_all_runs_that_share_it(catalog: Catalog, operator):
    def tagged(run_id: str, key: str | None, tag: str) -> str:
        create = operator(PaimonCreateTagOperator, tag=tag, idempotency_key=key)
        return create.job(PaimonHook(warehouse=catalog.warehouse), make_context(run_id=run_id)).commit_user

    assert tagged("one", "2013-01-05", "a") == tagged("two", "2013-01-05", "b")
    assert tagged("one", "2013-01-05", "a") != tagged("one", "2013-01-06", "a")
    # What a template gives where a run has no partition key.
    assert tagged("one", "None", "a") == tagged("one", None, "a") != tagged("two", None, "a")


def test_no_secret_is_part_of_a_job(monkeypatch, context):
    fields = {"conn_type": "paimon", "host": "s3://b/l", "login": "AKIA", "password": "very secret"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
    options = {"s3.session-token": "also secret"}
    operator = PaimonCompactOperator(task_id="t", table=TABLE, paimon_conn_id="lake", storage_options=options)
    hook = PaimonHook("lake", storage_options=options)

    job = operator.job(hook, context).to_json()

    assert Job.from_json(job).storage.secrets.keys() == {"s3.access-key", "s3.secret-key", "s3.session-token"}
    for secret in ("AKIA", "very secret", "also secret"):
        assert secret not in job


def test_results_are_plain_json_and_of_bounded_size():
    details = {"deleted": [{"path": str(number)} for number in range(1000)], "expired_snapshots": (1, 2)}
    details |= {"kept_by_tags": {str(number): 1 for number in range(400)}, "levels": {"0": 1}}

    value = xcom_of(JobResult("expired", "expire_snapshots", TABLE, None, 1.0, details))

    assert json.loads(json.dumps(value)) == value
    assert len(value["details"]["deleted"]) == 100
    assert value["details"]["omitted"] == {"deleted": 900, "kept_by_tags": 300}
    assert list(value["details"]["kept_by_tags"].items())[-1] == ("99", 1)
    assert value["details"]["levels"] == {"0": 1}
    assert value["details"]["expired_snapshots"] == [1, 2]


def test_consumers_of_the_asset_get_the_tag(catalog: Catalog, operator):
    asset = Asset("paimon://lake/air/flights")
    event = SimpleNamespace(extra={})

    operator(PaimonCreateTagOperator, outlets=[asset], snapshot=3).execute(make_context(outlet_events={asset: event}))

    assert event.extra == {
        "table": TABLE,
        "action": "create_tag",
        "status": "created",
        "snapshot_id": 3,
        "tag": "2013-01-05",
    }


def operators_below(kind: type[PaimonJobOperator]) -> list[type[PaimonJobOperator]]:
    return [kind, *(found for child in kind.__subclasses__() for found in operators_below(child))]


def test_all_fields_can_be_templates():
    for kind in operators_below(PaimonJobOperator):
        named = {name for name in kind.__init__.__annotations__ if name not in ("kwargs", "return", "fields")}

        assert not hasattr(kind, "action_name") or named <= set(kind.template_fields), kind
    assert "arguments" in PaimonJobOperator.template_fields


@pytest.mark.parametrize("kind", [kind for kind in operators_below(PaimonJobOperator) if hasattr(kind, "action_name")])
def test_an_operator_has_the_arguments_of_its_action(kind: type[PaimonActionOperator]):
    """The signature, which editors complete, and the docstring are written by hand; they say what the spec says."""
    taken = {
        name: parameter.default
        for above in kind.__mro__[: kind.__mro__.index(PaimonActionOperator)]
        for name, parameter in inspect.signature(above.__init__).parameters.items()
        if name not in ("self", "fields", "kwargs", *kind.more_templates)
    }
    texts = "".join(above.__doc__ or "" for above in kind.__mro__[: kind.__mro__.index(PaimonActionOperator)])
    # By what they know of the DAG's schedule.
    finds_itself = {PaimonCreateTagOperator: {"tag"}, PaimonCreateDayTagsOperator: {"timezone"}}.get(kind, set())

    fields = fields_of(ACTIONS[kind.action_name].spec)
    assert set(taken) == set(kind.action_fields) == {item.name for item in fields}
    for item in fields:
        expected = inspect.Parameter.empty if item.is_required else item.default
        assert item.name in finds_itself or taken[item.name] == expected, item.name
        assert f"{item.name}:" in texts, item.name


def test_an_operator_may_be_derived_with_arguments_of_its_own(catalog: Catalog, operator, context):
    class CompactMore(PaimonCompactOperator):
        def __init__(self, *, twice: bool = False, **kwargs):
            super().__init__(**kwargs)
            self.twice = twice

    made = operator(CompactMore, full=True, twice=True)

    assert CompactMore.template_fields == PaimonCompactOperator.template_fields
    assert (made.twice, made.execute(context)["status"]) == (True, "committed")


def test_templates_are_rendered(catalog: Catalog, warehouse: str, context):
    with DAG("d", schedule=None):
        operator = PaimonCreateTagOperator(
            task_id="t", table="air.{{ name }}", warehouse=warehouse, tag="{{ day }}", snapshot="{{ id }}"
        )
    operator.render_template_fields({"name": "flights", "day": "2013-01-07", "id": 2})

    result = operator.execute(context)

    assert (result["details"]["tag"], result["snapshot_id"]) == ("2013-01-07", 2)
