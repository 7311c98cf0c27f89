"""Jobs: their JSON, and what they do when they run, once and again."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, Progress, UnsupportedError, open_table
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.expire_changelogs import ExpireChangelogs
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.tags import CreateTag, DeleteTag
from paimon_engine.actions.write import Write
from paimon_engine.env import EnvConfig
from paimon_engine.jobs import (
    ACTIONS,
    CatalogRef,
    Job,
    JobResult,
    NewTable,
    StorageRef,
    TableRef,
    name_of,
    open_executor,
    run,
    without_last_line,
)
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from tests.hostile.parquet_bombs import BOMBS

TEXTS = st.text(max_size=8)
PATHS = TEXTS.filter(str.strip)
NUMBERS = st.none() | st.integers(1, 1 << 40)
FILTERS = st.sampled_from(["p = 1", "`a b` IN ('ä', '')", "p IS NULL OR q < '2'"])
"""Other texts are refused when the action is made."""
SPECS = st.one_of(
    st.builds(Write, PATHS | st.lists(PATHS, min_size=1), row_kind_column=st.none() | TEXTS),
    st.builds(Write, PATHS, overwrite=st.dictionaries(TEXTS, TEXTS | st.integers() | st.none())),
    st.builds(Compact, st.booleans(), st.none() | FILTERS, st.booleans()),
    st.builds(CreateTag, TEXTS, NUMBERS, st.sampled_from(["verify", "ignore", "replace", "error"]), NUMBERS),
    st.builds(DeleteTag, TEXTS),
    st.builds(ExpireSnapshots, NUMBERS, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Rollback, NUMBERS, st.none() | TEXTS),
)


class Lake:
    """A warehouse on disk with one table, run by jobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ref = TableRef(warehouse=str(root / "lake"), name="db.t")
        self.progress: list[Progress] = []

    def source(self, name: str, **columns: list[Any]) -> str:
        path = self.root / name
        pq.write_table(pa.table(columns), path)
        return str(path)

    def run(self, action: Any, user: str = "run-1", **more: Any) -> JobResult:
        """Through JSON, as a scheduler does."""
        job = Job.from_json(Job(self.ref, action, user, **more).to_json())
        return JobResult.from_json(run(job, on_progress=self.progress.append).to_json())

    @property
    def table(self):
        return Catalog(str(self.root / "lake")).table("db.t")

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.table.to_arrow().to_pylist())


KEYED = NewTable(primary_keys=("k",), options={"bucket": "2"})


@pytest.fixture
def lake(tmp_path: Path):
    lake = Lake(tmp_path)
    yield lake
    path = lake.ref.location()
    assert check_table(load_table(path, EnvConfig(path))) == []


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────


@given(
    SPECS, TEXTS, st.dictionaries(st.sampled_from(["s3.region", "anon", "profile"]), st.sampled_from(["eu", "", "ä"]))
)
def test_a_job_survives_its_json(spec: Any, user: str, options: dict[str, str]):
    job = Job(TableRef(path="/t"), spec, user, StorageRef(options, options), {"bucket": user})

    assert Job.from_json(job.to_json()) == job


def test_a_missing_table_is_not_made_for_a_write_to_its_branch(tmp_path: Path):
    lake = Lake(tmp_path)

    with pytest.raises(NotFoundError, match="branch 'trial'"):
        lake.run(Write(lake.source("a.parquet", k=[1])), create=NewTable(), table_options={"branch": "trial"})

    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("catalog_options", [{}, {"metastore": "jdbc"}], ids=["directory", "jdbc"])
def test_a_job_changes_the_branch_that_its_options_name(tmp_path: Path, catalog_options: dict[str, str]):
    if catalog_options:
        catalog_options = {**catalog_options, "uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    lake = Lake(tmp_path)
    catalog = CatalogRef(catalog_options)
    warehouse = Catalog(str(tmp_path / "lake"), options=catalog_options)
    warehouse.create_database("db")
    schema = {"k": "BIGINT NOT NULL"}
    table = warehouse.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    table.create_branch("trial")
    on_branch = {"table_options": {"branch": "trial"}, "catalog": catalog}

    lake.run(Write(lake.source("a.parquet", k=[1])), "one", **on_branch)
    lake.run(Compact(full=True), "two", **on_branch)

    branch = warehouse.table("db.t$branch_trial")
    assert branch.to_arrow().column("k").to_pylist() == [1]
    assert branch.files().column("level").to_pylist() == [5]
    assert table.snapshots().num_rows == 0
    with pytest.raises(NotFoundError, match="branch 'other'"):
        lake.run(Compact(), "three", table_options={"branch": "other"}, catalog=catalog)
    lake.ref = TableRef(warehouse=str(tmp_path / "lake"), name="db.t$branch_trial")
    assert lake.run(Write(lake.source("b.parquet", k=[2])), "four", catalog=catalog).snapshot_id == 3
    assert branch.to_arrow().column("k").to_pylist() == [1, 2]
    assert table.snapshots().num_rows == 0
    with pytest.raises(NotFoundError, match="branch 'other'"):
        lake.ref = TableRef(warehouse=str(tmp_path / "lake"), name="db.t$branch_other")
        lake.run(Write(lake.source("a.parquet", k=[1])), "five", create=KEYED, catalog=catalog)


def test_the_name_of_a_jobs_table_may_name_its_branch(tmp_path: Path):
    lake = Lake(tmp_path)
    lake.run(Write(lake.source("a.parquet", k=[1])), create=KEYED)
    lake.table.create_branch("trial")
    path = lake.table.path

    lake.ref = TableRef(path=f"{path}$branch_trial")
    lake.run(Write(lake.source("b.parquet", k=[2])), "two")

    assert lake.table.to_arrow().column("k").to_pylist() == [1]
    lake.ref = TableRef(path=f"{path}$branch_main")
    assert lake.run(CreateTag("one")).snapshot_id == 1
    with pytest.raises(InvalidArgumentError, match="another"):
        lake.run(Compact(), "three", table_options={"branch": "trial"})
    lake.ref = TableRef(path=f"{path}$snapshots")
    with pytest.raises(UnsupportedError, match="system table, which can only be read"):
        lake.run(Compact(), "four")


def test_the_directory_of_a_branch_is_no_table(tmp_path: Path):
    """It opened as one, of which all data files are missing; and what was written there nobody found."""
    lake = Lake(tmp_path)
    lake.run(Write(lake.source("a.parquet", k=[1])), create=KEYED)
    lake.table.create_branch("trial")
    path = lake.table.path
    before = sorted(Path(path).rglob("*"))

    for branch in ("trial", "other"):
        directory = f"{path}/branch/branch-{branch}"
        lake.ref = TableRef(path=directory)
        for create in (None, KEYED):
            with pytest.raises(InvalidArgumentError, match=f"option branch='{branch}'"):
                lake.run(Write(lake.source("b.parquet", k=[2])), "two", create=create)
        with pytest.raises(InvalidArgumentError, match=rf"t\$branch_{branch}"):
            open_table(directory)
    assert sorted(Path(path).rglob("*")) == before


def test_a_table_may_be_in_a_directory_that_is_called_like_one_of_branches(tmp_path: Path):
    lake = Lake(tmp_path)
    lake.ref = TableRef(path=str(tmp_path / "branch" / "branch-one"))

    assert lake.run(Write(lake.source("a.parquet", k=[1])), create=KEYED).snapshot_id == 1


def test_a_job_with_a_table_to_create_survives_its_json():
    job = Job(TableRef("/lake", "db.t"), Write("x.parquet"), "me", create=KEYED)

    assert Job.from_json(job.to_json()).to_json() == job.to_json()


def test_partition_values_to_overwrite_travel_as_text():
    job = Job(TableRef(path="/t"), Write("x", overwrite={"day": date(2013, 1, 1), "amount": Decimal("1.5")}), "me")

    assert json.loads(job.to_json())["action"]["overwrite"] == {"day": "2013-01-01", "amount": "1.5"}
    with pytest.raises(InvalidArgumentError, match="no JSON form"):
        Job(TableRef(path="/t"), Write("x", overwrite={"day": object()}), "me").to_json()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no valid job"),
        ("[]", "no valid job"),
        ('{"version": 2}', "version 2"),
        ('{"version": 1, "table": {}, "commit_user": "u", "action": {"name": "fly"}}', "no action 'fly'"),
        ('{"version": 1, "table": {}, "commit_user": "u", "action": {"name": "compact", "speed": 1}}', "speed"),
        ('{"version": 1, "table": {}, "action": {"name": "compact"}}', "commit_user"),
    ],
)
def test_what_is_no_job_is_refused_by_name(text: str, expected: str):
    with pytest.raises(InvalidArgumentError, match=expected):
        Job.from_json(text)


def test_every_action_has_a_name_a_spec_and_a_summary():
    assert list(ACTIONS) == [
        *("write", "compact", "compact_chain_table", "cluster", "delete_rows", "rescale", "rewrite_file_index"),
        *("compact_manifests", "analyze"),
        *("create_tag", "delete_tag", "expire_snapshots", "expire_changelogs", "create_table"),
        *("rollback", "alter_table"),
        *("remove_orphan_files", "restore", "empty_quarantine", "purge_files"),
        *("remove_unexisting_files", "remove_unexisting_manifests", "repair_earliest_snapshot", "verify"),
        "compatibility",
        "export_files",
        *("drop_partition", "expire_partitions", "mark_partition_done"),
        *("rename_tag", "create_day_tags", "create_due_tags", "expire_tags", "rollback_to_as_latest"),
        *("create_branch", "delete_branch", "rename_branch", "fast_forward", "merge_branch"),
        *("reset_consumer", "clear_consumers", "expire_consumers"),
    ]
    for info in ACTIONS.values():
        assert info.spec.__doc__
        assert info.summary
    assert name_of(Compact()) == "compact"


@pytest.mark.parametrize("ref", [TableRef(), TableRef(name="db.t"), TableRef("/lake", "db.t", "/lake/db.db/t")])
def test_a_table_is_named_in_one_way(ref: TableRef):
    with pytest.raises(InvalidArgumentError, match="either by warehouse"):
        ref.location()


# ── running ─────────────────────────────────────────────────────────────────────────────────────


def test_a_write_creates_the_table_from_its_source(lake: Lake):
    source = lake.source("a.parquet", k=[1, 2], v=["a", "b"])

    result = lake.run(Write(source), create=KEYED)

    assert (result.status, result.action, result.table, result.snapshot_id) == ("committed", "write", "db.t", 1)
    assert result.details["rows"] == 2
    assert lake.rows() == [(1, "a"), (2, "b")]
    assert lake.table.schema.primary_keys == ("k",)


def test_a_repeated_job_commits_once(lake: Lake):
    source = lake.source("a.parquet", k=[1], v=["a"])
    first = lake.run(Write(source), create=KEYED)
    lake.run(Write(lake.source("b.parquet", k=[1], v=["b"])), "run-2")

    again = lake.run(Write(source), create=KEYED)

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)
    assert lake.rows() == [(1, "b")]


def test_a_repeated_job_is_found_by_its_tag_after_expiry(lake: Lake):
    source = lake.source("a.parquet", k=[1], v=["a"])
    lake.run(Write(source), create=KEYED)
    lake.run(CreateTag("day-1"))
    lake.run(Write(lake.source("b.parquet", k=[1], v=["b"])), "run-2")
    lake.run(ExpireSnapshots(retain_max=1, retain_min=1))

    again = lake.run(Write(source), create=KEYED)

    assert (again.status, again.snapshot_id) == ("already_done", 1)
    assert lake.rows() == [(1, "b")]


def test_a_write_and_a_compaction_of_one_run_are_two_commits(lake: Lake):
    lake.run(Write(lake.source("a.parquet", k=[1, 2], v=["a", "b"])), create=KEYED)
    lake.run(Write(lake.source("b.parquet", k=[1], v=["c"])), "run-2")

    result = lake.run(Compact(full=True), "run-2")

    assert (result.status, result.snapshot_id) == ("committed", 3)
    assert lake.run(Compact(full=True), "run-2").status == "already_done"
    assert lake.rows() == [(1, "c"), (2, "b")]


def test_later_files_replace_earlier_ones(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    # Each file becomes a task of its own, so that only their sequence numbers put them in order.
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    sources = [lake.source(f"{name}.parquet", k=[1, number + 10], v=[name, name]) for number, name in enumerate("abc")]

    result = lake.run(Write(sources), create=KEYED)

    # Tasks that end at the same moment may be reported together.
    assert [lake.progress[0], lake.progress[-1]] == [Progress("write", 0, 3), Progress("write", 3, 3)]
    assert [report.done for report in lake.progress] == sorted({report.done for report in lake.progress})
    assert result.details["rows"] == 6
    assert lake.rows() == [(1, "c"), (10, "a"), (11, "b"), (12, "c")]


def test_a_failed_task_takes_the_files_of_the_others_with_it(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    good = lake.source("a.parquet", k=[1], v=["a"])
    bad = lake.source("b.parquet", k=[1], unknown=["a"])

    with pytest.raises(InvalidArgumentError, match="unknown"):
        lake.run(Write([good, bad]), create=KEYED)

    assert list(Path(lake.ref.location()).rglob("*.parquet")) == []
    assert lake.table.latest_snapshot_id() is None


def test_wildcards_and_directories_name_files_in_order(lake: Lake):
    for name in "ba":
        lake.source(f"part-{name}.parquet", k=[1], v=[name])

    lake.run(Write(str(lake.root / "part-*.parquet")), create=KEYED)
    assert lake.rows() == [(1, "b")]
    with pytest.raises(NotFoundError, match="no source file"):
        lake.run(Write(str(lake.root / "nothing-*.parquet")), "run-2")


def test_csv_is_read_in_the_types_of_the_table(lake: Lake):
    lake.run(Write(lake.source("a.parquet", k=[1], v=["1"])), create=KEYED)
    path = lake.root / "b.csv"
    pcsv.write_csv(pa.table({"k": [2, 3], "v": ["02", None]}), path)

    lake.run(Write(str(path), format="csv"), "run-2")

    assert lake.rows()[:2] == [(1, "1"), (2, "02")]
    with pytest.raises(InvalidArgumentError, match="'parquet' or 'orc' or 'avro' or 'csv' or 'json'"):
        lake.run(Write(str(path), format="xls"), "run-3")


def test_row_kinds_come_from_a_column(lake: Lake):
    lake.run(Write(lake.source("a.parquet", k=[1, 2], v=["a", "b"])), create=KEYED)

    deleted = lake.source("b.parquet", k=[1], v=["a"], kind=["-D"])
    lake.run(Write(deleted, row_kind_column="kind"), "run-2")

    assert lake.rows() == [(2, "b")]


def test_tags_expiry_and_rollback_run_as_jobs(lake: Lake):
    for number in range(3):
        lake.run(Write(lake.source("a.parquet", k=[number], v=["a"])), f"run-{number}", create=KEYED)

    assert lake.run(CreateTag("two", snapshot=2)).status == "created"
    assert lake.run(CreateTag("two", snapshot=2)).status == "already_done"
    assert lake.run(ExpireSnapshots(retain_max=2, retain_min=1, dry_run=True)).details["expired_snapshots"] == [1]
    assert lake.run(ExpireChangelogs(delete_all=True)).status == "noop"
    assert lake.run(Rollback(tag="two")).snapshot_id == 2
    assert lake.run(DeleteTag("two")).status == "deleted"
    assert lake.rows() == [(0, "a"), (1, "a")]


def test_secrets_come_from_the_environment(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    lake.run(Write(lake.source("a.parquet", k=[1], v=["a"])), create=KEYED)
    storage = StorageRef({}, {"secret": "LAKE_SECRET"})

    with pytest.raises(InvalidArgumentError, match="LAKE_SECRET"):
        lake.run(CreateTag("t"), storage=storage)
    monkeypatch.setenv("LAKE_SECRET", "hush")
    assert "hush" not in lake.run(CreateTag("t"), storage=storage).to_json()


@pytest.mark.parametrize("address", ["", "local[0]", "local[x]", "locally", "local[1", "yarn", "spark://host:7077"])
def test_an_unknown_spark_address_is_refused(address: str):
    with pytest.raises(InvalidArgumentError, match="sc://"), open_executor(address):
        pass


def test_a_source_that_cannot_be_read_is_named(lake: Lake):
    lake.run(Write(lake.source("good.parquet", k=[1], v=["a"])), create=KEYED)
    for name, make in (("bomb", BOMBS["more rows than values"][0]), ("noise", lambda: b"PAR1" * 9)):
        path = lake.root / f"{name}.parquet"
        path.write_bytes(make())
        with pytest.raises(InvalidArgumentError, match=f"source .*{name}.parquet: ") as raised:
            lake.run(Write(str(path)), name)
        assert "roll back to a snapshot" not in str(raised.value)


def test_a_thread_that_wants_no_last_line_silences_no_other(lake: Lake, caplog: pytest.LogCaptureFixture):
    """Also where one block begins in another thread before this one ends."""
    caplog.set_level(logging.INFO, "paimon_engine.action")
    lake.run(Write(lake.source("a.parquet", k=[1], v=["a"])), create=KEYED)
    first, other = without_last_line(), without_last_line()
    with ThreadPoolExecutor(1) as thread:
        first.__enter__()
        thread.submit(other.__enter__).result()
        lake.run(CreateTag("quiet"))
        first.__exit__(None, None, None)
        thread.submit(other.__exit__, None, None, None).result()
    lake.run(CreateTag("loud"))

    ends = [record.message for record in caplog.records if record.message.startswith("create_tag of")]
    assert len(ends) == 1
    assert "loud" in ends[0]
