"""With every name, an action works inside the table or refuses with an error of ours; nothing else is touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException
from typer.testing import CliRunner

from airflow_provider_paimon.operators.job import PaimonJobOperator
from paimon_engine import AddColumn, PaimonError, RemoveOption, RenameColumn, SetOption, StorageError, Table, open_table
from paimon_engine.cli import app
from paimon_engine.jobs import ACTIONS, JOB_VERSION, Job, TableRef, run
from paimon_engine.meta.names import is_text
from tests.hostile.sandbox import NAMES, SCHEMA, Sandbox, make_sandbox, rows, tree
from tests.provider.conftest import make_context

Arguments = Callable[[str], dict[str, Any]]

ACTIONS_WITH_NAMES: dict[str, tuple[str, Arguments]] = {
    "a tag": ("create_tag", lambda name: {"tag": name}),
    "a tag to delete": ("delete_tag", lambda name: {"tag": name}),
    "a tag to rename": ("rename_tag", lambda name: {"tag": "sound", "to": name}),
    "a tag to go back to": ("rollback", lambda name: {"tag": name}),
    "a tag to make the latest": ("rollback_to_as_latest", lambda name: {"tag": name}),
    "a branch": ("create_branch", lambda name: {"branch": name}),
    "a branch from a tag": ("create_branch", lambda name: {"branch": "side", "tag": name}),
    "a branch to delete": ("delete_branch", lambda name: {"branch": name}),
    "a branch to rename": ("rename_branch", lambda name: {"branch": "line", "to": name}),
    "a branch to go over to": ("fast_forward", lambda name: {"branch": name}),
    "a consumer": ("reset_consumer", lambda name: {"consumer": name, "next_snapshot": 2}),
    "a consumer to forget": ("reset_consumer", lambda name: {"consumer": name}),
    "consumers to forget": ("clear_consumers", lambda name: {"including": name}),
    "a quarantine": ("restore", lambda name: {"quarantine": name}),
    "a partition to drop": ("drop_partition", lambda name: {"partitions": [{"p": name}]}),
    "a partition of a chain": ("compact_chain_table", lambda name: {"partitions": [{"p": name}]}),
    "a partition column": ("drop_partition", lambda name: {"partitions": [{name: "a"}]}),
    "a partition to mark": ("mark_partition_done", lambda name: {"partitions": [{"p": name}]}),
    "a pattern of partitions": (
        "expire_partitions",
        lambda name: {"expiration_time": "1 d", "timestamp_pattern": name},
    ),
    "partitions to compact": ("compact", lambda name: {"where": name}),
    "rows to delete": ("delete_rows", lambda name: {"where": name}),
    "a source": ("write", lambda name: {"source": name}),
}
"""What is named; the action, and its arguments with that name."""


SOME_NAMES = ("../../victim", "/etc/x", "nul\0byte", "line\nbreak", "half \ud800 a character", "x" * 10_000)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = make_sandbox(tmp_path)
    sandbox.table.create_tag("sound")
    sandbox.table.create_branch("line")
    before = sandbox.outside()
    yield sandbox
    after = sandbox.outside()
    # Other tables of the database are what some tests are about.
    database = f"{sandbox.path.parent}/"
    assert {path: data for path, data in after.items() if path in before or not path.startswith(database)} == before
    assert not sandbox.path.exists() or sandbox.table.verify().problems == ()


def attempt(act: Callable[[], Any]) -> bool:
    """Whether it was done; any error that is not ours fails the test."""
    try:
        act()
    except PaimonError as error:
        assert str(error)
        return False
    return True


def test_names_are_hostile_to_all_actions_that_take_names():
    named = {action for action, _ in ACTIONS_WITH_NAMES.values()}

    assert named <= set(ACTIONS)


@pytest.mark.parametrize("what", ACTIONS_WITH_NAMES)
def test_a_hostile_name_in_a_job_stays_inside_the_table(box: Sandbox, what: str):
    action, arguments = ACTIONS_WITH_NAMES[what]

    for number, name in enumerate(NAMES):
        job = {
            "version": JOB_VERSION,
            "table": {"warehouse": str(box.lake), "name": "db.t"},
            "commit_user": f"user-{number}",
        }
        text = json.dumps({**job, "action": {"name": action, **arguments(name)}})
        attempt(lambda text=text: run(Job.from_json(text)))


OPTIONS = (
    "data-file.prefix",
    "changelog-file.prefix",
    "data-file.path-directory",
    "data-file.external-paths",
    "partition.default-name",
    "partition.mark-done-action",
    "partition.mark-done-action.custom.class",
    "partition.timestamp-formatter",
    "scan.fallback-branch",
    "branch",
    "path",
    "consumer-id",
    "file.format",
    "changelog-file.format",
    "file.compression",
    "manifest.compression",
    "manifest.format",
    "metadata.stats-mode",
    "file-index.bloom-filter.columns",
    "tag.period-formatter",
    "merge-engine",
    "sequence.field",
    "fields.../../x.aggregate-function",
    "commit.user-prefix",
    "write.merge-schema",
)


@pytest.mark.parametrize("name", SOME_NAMES, ids=lambda name: repr(name[:20]))
def test_a_hostile_value_of_an_option_stays_inside_the_table(box: Sandbox, name: str):
    for number, option in enumerate(OPTIONS):
        options = {"changelog-producer": "input", "write-only": "true", option: name}
        acts: list[Callable[[Table], Any]] = [
            lambda table, number=number: table.write(rows(("a", number))),
            lambda table: table.to_arrow(),
            lambda table: table.mark_partition_done({"p": "a"}),
            lambda table: table.expire_snapshots(retain_max=2, retain_min=1),
        ]
        for act in acts:
            attempt(lambda act=act, options=options: act(open_table(str(box.path), options=options)))
        attempt(lambda option=option: box.table.alter([SetOption(option, name), RemoveOption(option)]))


def test_a_hostile_option_of_a_new_table_stays_inside_its_database(box: Sandbox):
    box.catalog.create_table("db.u", schema=SCHEMA, options={"data-file.prefix": "sound-"})
    before = tree(box.root, without=box.path.parent)

    for number, (option, name) in enumerate((option, name) for option in OPTIONS for name in SOME_NAMES):
        made = attempt(
            lambda option=option, name=name, number=number: box.catalog.create_table(
                f"db.t{number}", schema=SCHEMA, options={option: name}
            )
        )
        if made and "prefix" in option:
            attempt(lambda number=number: box.catalog.table(f"db.t{number}").write(rows(("a", 1))))

    assert tree(box.root, without=box.path.parent) == before
    for number in range(len(OPTIONS) * len(SOME_NAMES)):
        box.catalog.drop_table(f"db.t{number}", if_exists=True)
    box.catalog.drop_table("db.u")
    assert (box.victim / "secret.txt").read_text() == "keep me"


def test_hostile_names_of_tables_and_databases_stay_inside_the_warehouse(box: Sandbox):
    before = tree(box.root, without=box.lake)
    table = tree(box.path)

    for name in NAMES:
        for full in (
            name,
            f"{name}.t",
            f"db.{name}",
            f"db.t${name}",
            f"db.t$branch_{name}",
            f"db.t$branch_{name}$files",
        ):
            attempt(lambda full=full: box.catalog.table(full).to_arrow())
            attempt(lambda full=full: run(Job(TableRef(str(box.lake), full), ACTIONS["verify"].spec(), "u")))
        for full in (f"{name}.t", f"db.{name}"):
            if attempt(lambda full=full: box.catalog.create_table(full, schema=SCHEMA)):
                box.catalog.drop_table(full)
            attempt(lambda full=full: box.catalog.rename_table("db.t", full)) and box.catalog.rename_table(full, "db.t")
            attempt(lambda full=full: box.catalog.drop_table(full))
        attempt(lambda name=name: box.catalog.list_tables(name))
        attempt(lambda name=name: box.catalog.database_properties(name))
        attempt(lambda name=name: box.catalog.create_database(name))
        attempt(lambda name=name: box.catalog.drop_database(name, cascade=True))

    assert tree(box.root, without=box.lake) == before
    assert tree(box.path) == table


def test_hostile_names_of_columns_stay_inside_the_table(box: Sandbox):
    before = tree(box.root, without=box.path.parent)
    done = 0

    for number, name in enumerate(NAMES):
        full = f"db.c{number}"

        def use(name: str = name, full: str = full) -> None:
            schema = pa.schema([pa.field(name, pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False)])
            table = box.catalog.create_table(
                full, schema=schema, primary_keys=[name, "k"], partition_keys=[name], options={"bucket": "1"}
            )
            table.write(pa.table({name: ["..", "../x"], "k": [1, 2]}, schema))
            assert table.to_arrow().sort_by("k").column(name).to_pylist() == ["..", "../x"]
            table.mark_partition_done({name: "../x"})
            table.drop_partition({name: "../x"})
            assert table.to_arrow().num_rows == 1
            assert table.verify().problems == ()

        if is_text(name):
            done += attempt(use)
            attempt(lambda name=name: box.table.alter([AddColumn(name, "STRING")]))
            attempt(lambda name=name: box.table.alter([RenameColumn("v", name), RenameColumn(name, "v")]))

    assert done > len(NAMES) // 2
    assert tree(box.root, without=box.path.parent) == before


def test_hostile_partition_values_are_rows_like_others(box: Sandbox):
    names = [name for name in NAMES if is_text(name) and len(name.encode()) < 80]

    box.table.write(rows(*((name, 7) for name in names)))

    read = box.table.to_arrow(where="k = 7").column("p").to_pylist()
    # Text that is blank is the default partition, as in Java; the value itself stays in the file.
    assert sorted(read) == sorted(names)
    with pytest.raises(StorageError, match="too long"):
        box.table.write(rows(("x" * 10_000, 8)))
    assert box.table.to_arrow(where="k = 8").num_rows == 0


def test_hostile_users_of_commits_are_text_in_a_snapshot(box: Sandbox):
    for name in NAMES:
        action = {"name": "write", "source": box.source}
        job = {"version": JOB_VERSION, "table": {"path": str(box.path)}, "commit_user": name, "action": action}
        is_user = bool(name) and is_text(name)
        assert attempt(lambda job=job: run(Job.from_json(json.dumps(job)))) == is_user
        if is_user:
            assert run(Job.from_json(json.dumps(job))).status == "already_done"

    users = box.table.snapshots().column("commit_user").to_pylist()
    assert {name for name in NAMES if name and is_text(name)} <= set(users)


def test_the_command_line_refuses_hostile_names_without_a_traceback(box: Sandbox):
    path, runner = str(box.path), CliRunner()
    commands = [
        lambda name: ["tag", "create", path, name],
        lambda name: ["tag", "delete", path, name],
        lambda name: ["branch", "create", path, name],
        lambda name: ["branch", "delete", path, name],
        lambda name: ["read", f"{path}$branch_{name}"],
        lambda name: ["read", path, "--tag", name],
        lambda name: ["read", f"db.{name}", "-w", str(box.lake)],
    ]
    for name in SOME_NAMES:
        for command in commands:
            result = runner.invoke(app, command(name))
            # `main` makes one line of these.
            assert result.exception is None or isinstance(result.exception, PaimonError | OSError | SystemExit), name


@pytest.mark.airflow
def test_the_operator_refuses_hostile_names(box: Sandbox):
    for number, name in enumerate(NAMES):
        for action, arguments in (("create_tag", {"tag": name}), ("delete_branch", {"branch": name})):
            operator = PaimonJobOperator(task_id="t", table=str(box.path), action=action, arguments=arguments)
            context = make_context(run_id=f"run-{number}")
            try:
                operator.execute(context)
            except AirflowException as error:
                assert str(error)
