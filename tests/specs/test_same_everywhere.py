"""Every action gives the same result, or the same error, however it is called.

Facade, job of typed values, job of texts, command line, and operator of typed values and of texts: each on the same
table at the same path. What differs from run to run is left out: times, ids, sizes of files that contain them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.provider_info import get_provider_info
from paimon_engine import Catalog, PaimonError, SetOption, Table, open_table
from paimon_engine.cli.faces import FACES, plain_face
from paimon_engine.jobs import ACTIONS, Job, run
from tests.provider.conftest import make_context
from tests.support.command_line import Run

pytestmark = pytest.mark.airflow

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)
LONG_AGO = "2013-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Case:
    """An action with typed fields; `wrong` is a field with a value that it may not hold, if it has fields at all."""

    action: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    wrong: tuple[str, Any] | None = ("dry_run", "perhaps")
    table: str = "keyed"

    @property
    def refused(self) -> Mapping[str, Any]:
        assert self.wrong is not None
        return {**self.fields, self.wrong[0]: self.wrong[1]}


CHAIN = {
    "chain-table.enabled": "true",
    "bucket": "1",
    "sequence.field": "v",
    "partition.timestamp-pattern": "$p",
    "partition.timestamp-formatter": "yyyy",
}
BRANCHES = {"scan.fallback-snapshot-branch": "full", "scan.fallback-delta-branch": "delta"}
CASES = (
    Case("write", {"source": "{root}/rows.parquet"}, ("watermark", "soon")),
    Case(
        "compact",
        {"full": True, "max_bytes": 50 << 30, "partition_idle_time": 0, "buckets": [0]},
        ("max_bytes", "much"),
    ),
    Case("compact_chain_table", {"partitions": [{"p": "a"}], "rebuild": True, "dry_run": True}, table="chained"),
    Case("cluster", {"columns": ["v"], "order": "zorder"}, ("task_bytes", "much"), table="appended"),
    Case("delete_rows", {"where": "k = 1"}, ("where", 7), table="appended"),
    Case("rescale", {"where": "p = 'a'", "dry_run": True}),
    Case("rewrite_file_index", {"rebuild": False, "dry_run": True}, ("rebuild", "perhaps")),
    Case("compact_manifests", {"dry_run": False}),
    Case("analyze", {"columns": ["k", "v"]}, ("columns", 7)),
    Case("create_tag", {"tag": "new", "snapshot": 1, "time_retained": 86_400_000}, ("time_retained", "soon")),
    Case("delete_tag", {"tag": "kept", "quarantine": True, "files_per_second": 1000.0}, ("files_per_second", "many")),
    Case("rename_tag", {"tag": "kept", "to": "other"}, ("to", 7)),
    Case("expire_snapshots", {"retain_max": 1, "dry_run": False, "parallelism": 1}, ("retain_max", "0")),
    Case("expire_changelogs", {"delete_all": True}, ("limit", "many")),
    Case("rollback", {"snapshot": 2}, ("snapshot", "first")),
    Case("rollback_to_as_latest", {"snapshot": 1}, ("snapshot", "-1")),
    Case("alter_table", {"changes": [{"change": "set_option", "key": "bucket", "value": "2"}]}, ("changes", "none")),
    Case(
        "create_table",
        {"columns": {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"}, "primary_keys": ["p", "k"]}
        | {"partition_keys": ["p"], "options": {"bucket": "1"}},
        ("if_exists", "replace"),
    ),
    Case("remove_orphan_files", {"older_than": LONG_AGO}, ("older_than", "long ago")),
    Case("restore", {"quarantine": "none", "dry_run": True}, ("as_tags", "perhaps")),
    Case("empty_quarantine", {"older_than": LONG_AGO}, ("older_than", "long ago")),
    Case("purge_files", {"keep_tags": True, "dry_run": True}, ("keep_tags", "perhaps")),
    Case("remove_unexisting_files", {"dry_run": False, "parallelism": 2}, ("parallelism", "0")),
    Case("remove_unexisting_manifests", {"dry_run": True}),
    Case("repair_earliest_snapshot", {"dry_run": True}, ("snapshot", "first")),
    Case("verify", {"depth": "metadata"}, ("depth", "deep")),
    Case("compatibility", wrong=None),
    Case(
        "export_files",
        {"target": "{root}/lake/out", "columns": ["k", "v"], "where": "k > 0", "tag": "kept", "partition_by": ["v"]},
        ("format", "xml"),
    ),
    Case("drop_partition", {"partitions": [{"p": "a"}], "dry_run": False}, ("partitions", "p")),
    Case("expire_partitions", {"expiration_time": 30 * 86_400_000, "max_num": 1}, ("expiration_time", "soon")),
    Case("mark_partition_done", {"partitions": [{"p": "a"}]}),
    Case("create_day_tags", {"since": "2999-01-01", "dry_run": True}, ("since", 7)),
    Case("create_due_tags", {"dry_run": True}),
    Case("expire_tags", {"older_than": LONG_AGO, "dry_run": True}, ("older_than", "long ago")),
    Case("create_branch", {"branch": "new", "tag": "kept", "if_exists": "ignore"}, ("if_exists", "perhaps")),
    Case("delete_branch", {"branch": "kept"}),
    Case("rename_branch", {"branch": "kept", "to": "other"}, ("to", 7)),
    Case("fast_forward", {"branch": "kept", "dry_run": True}),
    Case("merge_branch", {"branch": "kept", "dry_run": True}),
    Case("reset_consumer", {"consumer": "reader", "next_snapshot": 2}, ("next_snapshot", "first")),
    Case("clear_consumers", {"including": "read.*", "dry_run": True}),
    Case("expire_consumers", {"older_than": LONG_AGO}, ("older_than", "long ago")),
)


# ── a table, the same each time ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table with keys and one without, each with a history, a tag, a branch and a consumer."""
    root = tmp_path_factory.mktemp("same")
    rows = pa.table({"p": ["a", "b"], "k": [1, 2], "v": ["x", "y"]}, SCHEMA)
    pq.write_table(rows, root / "rows.parquet")
    catalog = Catalog(str(root / "lake"))
    for name, keys in (("keyed", ["p", "k"]), ("appended", [])):
        options = {"bucket": 1, "snapshot.num-retained.min": 1} if keys else {"deletion-vectors.enabled": "true"}
        made = catalog.create_table(
            f"db.{name}", schema=SCHEMA, primary_keys=keys, partition_keys=["p"], options=options
        )
        for _ in range(3):
            made.write(rows)
        made.create_tag("kept", 2)
        made.create_branch("kept", "kept")
        consumers = Path(made.path, "consumer")
        consumers.mkdir()
        (consumers / "consumer-reader").write_text('{"nextSnapshot": 3}')
    chain = catalog.create_table(
        "db.chained", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=CHAIN
    )
    for name in ("full", "delta"):
        chain.create_branch(name)
    for name in ("", "$branch_full", "$branch_delta"):
        catalog.table(f"db.chained{name}").alter([SetOption(*item) for item in BRANCHES.items()])
    catalog.table("db.chained$branch_delta").write(rows)
    shutil.copytree(root / "lake", root / "copy")
    return root


_PATHS = ("source", "target")

# ── the ways in ─────────────────────────────────────────────────────────────────────────────────

VERBS = {"delete_rows": "delete", "alter_table": "alter", "export_files": "export"}
NAMES = {
    "tag": ("create_tag", "rename_tag", "delete_tag"),
    "branch": ("create_branch", "rename_branch", "delete_branch"),
    "consumer": ("reset_consumer",),
}


def by_facade(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
    """Through the verb of `Table`; rows are written from memory there, and tables made by the catalog: by a job."""
    given, first = dict(fields), ()
    if action in ("write", "create_table"):
        return by_job(action, table, fields)
    for name, actions in NAMES.items():
        if action in actions and name in given:
            given["name"] = given.pop(name)
    if isinstance(given.get("partitions"), list):
        first = tuple(given.pop("partitions"))
    elif "partitions" in given:
        first = (given.pop("partitions"),)
    return getattr(table, VERBS.get(action, action))(*first, **given).to_dict()


def by_job(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
    job = {"version": 1, "table": {"path": table.path}, "commit_user": "u", "action": {"name": action, **fields}}
    return run(Job.from_json(json.dumps(job))).details


def as_texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a template or a person makes of values."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}


def by_job_of_texts(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
    return by_job(action, table, as_texts(fields))


def operator_of(action: str) -> type[PaimonActionOperator]:
    info = get_provider_info()
    for module in (*info["operators"][0]["python-modules"], *(entry["python-module"] for entry in info["transfers"])):
        __import__(module)
    kinds = [PaimonActionOperator]
    while kinds:
        kind = kinds.pop()
        if getattr(kind, "action_name", None) == action:
            return kind
        kinds += kind.__subclasses__()
    raise AssertionError(f"no operator for {action}")


def by_operator(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
    operator = operator_of(action)(task_id="t", table=table.path, launcher="in_process", **fields)
    return operator.execute(make_context())["details"]


def by_operator_of_texts(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
    return by_operator(action, table, as_texts(fields))


def words_of(action: str, table: Table, fields: Mapping[str, Any]) -> list[str]:
    """The words of a command."""
    given = as_texts(fields)
    if action == "alter_table":
        return ["alter", "apply", table.path, given["changes"]]
    face = next((face for face in FACES.values() if face.action == action), None)
    if face is None and action == "create_table":
        face = plain_face(action)
    names, options = (["rollback"], {}) if face is None else (face.name.split(), face.options)
    first = [given.pop(name) for name in (face.arguments if face is not None else ()) if name in given]
    words = [*names, table.path, *first]
    for name, text in given.items():
        flag = options.get(name, f"--{name.replace('_', '-')}")
        is_flag = fields[name] is True or fields[name] is False
        words += ([flag] if fields[name] else []) if is_flag else [flag, text]
    extra = {"rollback_to_as_latest": ["--as-latest"], "rollback": ["--yes"]}
    return [*words, *extra.get(action, ["--yes"] if face is not None and face.question else [])]


# ── the same ────────────────────────────────────────────────────────────────────────────────────

VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|\d{13}|-\d+\.(avro|parquet|index)")


def plain(value: Any) -> Any:
    """A result without what differs from run to run."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name != "seconds" and "bytes" not in name}
    if isinstance(value, list | tuple):
        return sorted((plain(item) for item in value), key=repr)
    return VOLATILE.sub("…", value) if isinstance(value, str) else value


def described(error: BaseException) -> str:
    """The message of an error, without the task and the class of the error that Airflow's exception names first."""
    text = re.sub(r"^t: ", "", str(error).partition("\n")[0])
    return VOLATILE.sub("…", text.removeprefix(f"{type(error.__cause__).__name__}: "))


@pytest.fixture
def ask(made: Path, paimon: Run) -> Callable[..., dict[str, Any]]:
    """What comes of an action on each way, on a fresh table each time: a result, or the text of an error."""

    def by_command(action: str, table: Table, fields: Mapping[str, Any]) -> Any:
        words = words_of(action, table, fields)
        ended = paimon(*words, *(() if action == "run" else ("--json",)))
        if not ended.out:
            raise PaimonError(ended.err.removeprefix("error: ").rstrip())
        return json.loads(ended.out)

    def ask(case: Case, fields: Mapping[str, Any], ways: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        filled = {name: value.format(root=made) if name in _PATHS else value for name, value in fields.items()}
        for way, go in {**ways, **({"command": by_command} if "command" in ways else {})}.items():
            shutil.rmtree(made / "lake")
            shutil.copytree(made / "copy", made / "lake")
            try:
                details = go(case.action, open_table(str(made / "lake" / "db.db" / case.table)), filled)
                found[way] = plain(json.loads(json.dumps(details, default=str)))
            except (PaimonError, AirflowFailException) as error:
                found[way] = described(error)
        return found

    return ask


WAYS = {
    "job": by_job,
    "facade": by_facade,
    "job of texts": by_job_of_texts,
    "command": None,
    "operator": by_operator,
    "operator of texts": by_operator_of_texts,
}


def test_every_action_has_a_case():
    assert {case.action for case in CASES} == set(ACTIONS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.action)
def test_an_action_gives_the_same_on_every_way(case: Case, ask: Callable[..., dict[str, Any]]):
    found = ask(case, case.fields, WAYS)

    for way, result in found.items():
        assert result == found["job"], way


@pytest.mark.parametrize("case", [case for case in CASES if case.wrong], ids=lambda case: case.action)
def test_a_wrong_value_gives_the_same_error_on_every_way(case: Case, ask: Callable[..., dict[str, Any]]):
    assert case.wrong is not None
    name, value = case.wrong
    ways = dict(WAYS)
    if not isinstance(value, str):
        # A text is taken as it is: 7 is a name.
        for way in ("job of texts", "command", "operator of texts"):
            ways.pop(way)
    if isinstance(value, str) and value == "perhaps" and name != "if_exists":
        # A flag of a command has no value.
        ways.pop("command")
    if case.action == "alter_table":
        # The command takes JSON, and says so.
        ways.pop("command", None)
    if name == "partitions":
        # The verb takes them one by one.
        ways.pop("facade")
    found = ask(case, case.refused, ways)

    assert isinstance(found["job"], str)
    assert found["job"].startswith(f"{case.action}: {name}=")
    assert "is not allowed; give " in found["job"]
    for way, error in found.items():
        assert error == found["job"], way
