"""Values that no field may hold: refused by name on every way in, before anything is done with them.

Every action × every field × values of other types, beyond bounds, or made to break decoders; through the JSON of a job,
as a scheduler hands it over, and through the verbs of a table, as people call them.
"""

from __future__ import annotations

import inspect
import json
import reprlib
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.job import PaimonJobOperator
from paimon_engine import InvalidArgumentError, PaimonError, Table, open_table
from paimon_engine.jobs import ACTIONS, Job, run
from paimon_engine.specs import SpecField, fields_of
from tests.hostile.sandbox import Sandbox, make_sandbox, rows
from tests.provider.conftest import make_context


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


NUMBERS = (0, 1, -1, 10**30, -(10**30), 10**400, 1 << 63, (1 << 63) - 1, -(1 << 63), 3)
FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, 1.5, -1.0, 1e308)
TEXTS = (
    "",
    " ",
    "false",
    "true",
    "False",
    "1",
    "-1",
    "None",
    "NaN",
    "0x10",
    "x" * 10_000,
    "\ud800",
    "\0",
    "' OR 1=1 --",
)
SHAPES = ([], {}, [None], [True], [[]], [{}], {"a": {}}, {"": None}, {"p": [1]}, ["a", 1], [1, 2, 3], nested(200))
HOSTILE = (None, True, False, *NUMBERS, *FLOATS, *TEXTS, *SHAPES)
ONLY_IN_PYTHON = (
    b"",
    b"bytes",
    object(),
    {1, 2},
    {1: 2},
    nested(100_000),
    datetime.max,
    timedelta.max,
    np.array([1, 2]),
)

SOUND: Mapping[str, Mapping[str, Any]] = {
    "write": {"source": "{source}"},
    "cluster": {"columns": ["v"]},
    "delete_rows": {"where": "k = 1"},
    "create_tag": {"tag": "new"},
    "delete_tag": {"tag": "kept"},
    "rename_tag": {"tag": "kept", "to": "other"},
    "rollback": {"tag": "kept", "dry_run": True},
    "rollback_to_as_latest": {"tag": "kept"},
    "alter_table": {"changes": [{"change": "set_option", "key": "a", "value": "b"}]},
    "restore": {"quarantine": "none", "dry_run": True},
    "export_files": {"target": "{root}/exported", "if_exists": "replace"},
    "drop_partition": {"partitions": [{"p": "a"}], "dry_run": True},
    "compact_chain_table": {"partitions": [{"p": "a"}], "dry_run": True},
    "mark_partition_done": {"partitions": [{"p": "a"}], "dry_run": True},
    "create_branch": {"branch": "new"},
    "delete_branch": {"branch": "kept", "dry_run": True},
    "rename_branch": {"branch": "kept", "to": "other"},
    "fast_forward": {"branch": "kept", "dry_run": True},
    "merge_branch": {"branch": "kept", "dry_run": True},
    "reset_consumer": {"consumer": "c"},
}
"""The required fields of an action, and a dry run where it has one."""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    # Files of other programs are written where the target says, also in the directory of the process.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    box = make_sandbox(tmp_path)
    box.table.create_tag("kept", 2)
    box.table.create_branch("kept", "kept")
    shutil.copytree(box.lake, tmp_path / "copy")
    return box


def listed(folder: Path) -> dict[Path, tuple[int, int]]:
    found = {path.relative_to(folder): path.stat() for path in folder.rglob("*")}
    return {path: (one.st_size, one.st_mtime_ns) for path, one in found.items() if not stat.S_ISDIR(one.st_mode)}


def renew(box: Sandbox) -> None:
    if listed(box.lake) == listed(box.root / "copy"):
        return
    shutil.rmtree(box.lake)
    shutil.copytree(box.root / "copy", box.lake)


def sound(action: str, box: Sandbox) -> dict[str, Any]:
    given = {
        key: str(value).format(source=box.source, root=box.root) if key in ("source", "target") else value
        for key, value in SOUND.get(action, {}).items()
    }
    has_dry_run = any(item.name == "dry_run" for item in fields(ACTIONS[action].spec))
    return {"dry_run": True, **given} if has_dry_run else given


def is_of_kind(value: Any, item: SpecField) -> bool:
    """Whether a value may at all be one of the field's, in one of the forms in which it may be given."""
    kind = "" if item.kind is None else item.kind.name
    plain = str(item.hint)
    is_list, is_union_of_texts = item.item is not None, kind == "address"
    is_text = kind in ("text", "name", "condition", "pattern", "address") or "Literal" in plain
    if value is None:
        return item.is_optional or item.is_empty_if_none
    if isinstance(value, bool):
        return kind == "flag"
    if isinstance(value, int):
        is_number = kind in ("integer", "size", "duration", "moment", "amount") and not is_list
        return is_number and -(1 << 63) <= value < 1 << 63
    if isinstance(value, float):
        return kind == "amount" and value == value and abs(value) < 1e300
    if isinstance(value, str):
        return is_text_of(value, kind, is_text=is_text) or (item.is_optional and value.strip() in ("", "None"))
    if isinstance(value, dict):
        return kind in ("partition", "map") and not is_list
    return isinstance(value, list) and (is_list or is_union_of_texts)


def is_text_of(value: str, kind: str, *, is_text: bool) -> bool:
    """Whether a text is a value of a kind."""
    match kind:
        case _ if is_text:
            return value != "\ud800"
        case "flag":
            return value.lower() in ("true", "false", "1")
        case "integer" | "moment":
            return value in ("1", "-1")
        case "amount" | "size" | "duration":
            return value == "1"
        case "partition" | "map":
            return "=" in value
        case _:
            return False


# ── through jobs ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("action", ACTIONS)
def test_a_job_refuses_what_a_field_does_not_allow(action: str, box: Sandbox):
    spec = ACTIONS[action].spec
    begin = sound(action, box)
    wrong: list[str] = []
    for item in fields_of(spec):
        for value in HOSTILE:
            job = {"version": 1, "table": {"path": str(box.path)}, "commit_user": "u"}
            text = json.dumps({**job, "action": {"name": action, **begin, item.name: value}})
            try:
                run(Job.from_json(text))
            except InvalidArgumentError as error:
                message = str(error)
                if not is_of_kind(value, item) and (action not in message or item.name not in message):
                    wrong.append(f"{item.name}={reprlib.repr(value)} is refused by {message!r:.120}")
                continue
            except PaimonError:
                pass
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
                wrong.append(f"{item.name}={reprlib.repr(value)} ends in {type(error).__name__}: {error!s:.150}")
                renew(box)
                continue
            if not is_of_kind(value, item):
                wrong.append(f"{item.name}={reprlib.repr(value)} is taken for {item.hint}")
            renew(box)

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_field_that_is_needed_is_named_when_it_is_missing(action: str):
    needed = [
        item for item in fields(ACTIONS[action].spec) if item.default is MISSING and item.default_factory is MISSING
    ]
    text = json.dumps({"version": 1, "table": {"path": "/t"}, "commit_user": "u", "action": {"name": action}})

    if not needed:
        assert Job.from_json(text).action == ACTIONS[action].spec()
        return
    with pytest.raises(InvalidArgumentError, match=f"{action}: the field {needed[0].name} is missing"):
        Job.from_json(text)


@pytest.mark.parametrize(
    "part", ["table", "storage", "catalog", "create", "target", "table_options", "commit_user", "action", "version"]
)
def test_the_other_parts_of_a_job_are_checked_too(part: str, box: Sandbox):
    sound_job = {"version": 1, "table": {"path": str(box.path)}, "commit_user": "u", "action": {"name": "verify"}}
    inner = {
        "table": ("path", "name", "warehouse"),
        "storage": ("options", "secrets"),
        "catalog": ("options", "secrets"),
    }
    inner["target"] = inner["storage"]
    inner["create"] = ("primary_keys", "partition_keys", "options", "comment")
    raw: list[str] = []
    for value in HOSTILE:
        for given in (value, *({name: value} for name in inner.get(part, ()))):
            try:
                run(Job.from_json(json.dumps({**sound_job, part: given})))
            except PaimonError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
                raw.append(f"{part}={reprlib.repr(given)} ends in {type(error).__name__}: {error!s:.150}")

    assert not raw, "\n".join(raw)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version": 1, "action": ' + "[" * 100_000,
        '{"version": 1, "table": {}, "commit_user": "u", "action": {"name": "verify", "depth": ' + '{"a":' * 100_000,
        '{"version": ' + "9" * 10_000 + "}",
        "\ud800",
        "nul",
    ],
    ids=["list", "action", "depth", "digits", "surrogate", "word"],
)
def test_json_made_to_break_a_decoder_is_no_job(text: str):
    with pytest.raises(InvalidArgumentError, match="no valid job|version"):
        Job.from_json(text)


# ── through the verbs ───────────────────────────────────────────────────────────────────────────

VERBS = (
    *(
        "compact",
        "compact_chain_table",
        "cluster",
        "delete",
        "rescale",
        "rewrite_file_index",
        "compact_manifests",
        "analyze",
    ),
    *("expire_snapshots", "expire_changelogs", "drop_partition", "expire_partitions", "mark_partition_done", "verify"),
    *("remove_orphan_files", "restore", "empty_quarantine", "purge_files", "remove_unexisting_files"),
    *("remove_unexisting_manifests", "repair_earliest_snapshot"),
    *(
        "create_tag",
        "rename_tag",
        "delete_tag",
        "expire_tags",
        "create_day_tags",
        "create_due_tags",
        "tags",
        "rollback",
    ),
    *("rollback_to_as_latest", "create_branch", "rename_branch", "delete_branch", "fast_forward", "merge_branch"),
    *("reset_consumer", "clear_consumers", "expire_consumers", "alter", "write", "to_arrow", "to_batches", "files"),
)
SOUND_VERBS: Mapping[str, Mapping[str, Any]] = {
    "delete": {"where": "k = 1"},
    "cluster": {"columns": ["v"]},
    "create_tag": {"name": "new"},
    "rename_tag": {"name": "kept", "to": "other"},
    "delete_tag": {"name": "kept"},
    "rollback": {"tag": "kept"},
    "rollback_to_as_latest": {"tag": "kept"},
    "restore": {"quarantine": "none"},
    "create_branch": {"name": "new"},
    "rename_branch": {"name": "kept", "to": "other"},
    "delete_branch": {"name": "kept"},
    "fast_forward": {"branch": "kept"},
    "merge_branch": {"branch": "kept"},
    "reset_consumer": {"name": "c"},
    "alter": {"changes": [{"change": "set_option", "key": "a", "value": "b"}]},
    "write": {"data": rows(("a", 1))},
}
NO_VALUES = {"self", "on_progress", "how", "partitions"}


def arguments_of(verb: Callable[..., Any]) -> list[str]:
    names = [name for name in inspect.signature(verb).parameters if name not in NO_VALUES]
    takes_more = "how" in inspect.signature(verb).parameters
    return [*names, *(("quarantine", "files_per_second", "parallelism") if takes_more else ())]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_gives_a_typed_error_or_a_result(verb: str, box: Sandbox):
    parameters = inspect.signature(getattr(Table, verb)).parameters
    begin = (
        {"dry_run": True, **SOUND_VERBS.get(verb, {})} if "dry_run" in parameters else dict(SOUND_VERBS.get(verb, {}))
    )
    raw: list[str] = []
    for name in arguments_of(getattr(Table, verb)):
        for value in (*HOSTILE, *ONLY_IN_PYTHON):
            try:
                found = getattr(open_table(str(box.path)), verb)(**{**begin, name: value})
                if verb == "to_batches":
                    found.read_all()
            except PaimonError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
                raw.append(
                    f"{verb}({name}={type(value).__name__} {reprlib.repr(value)}) ends in {type(error).__name__}: {error!s:.150}"
                )
            renew(box)

    assert not raw, "\n".join(raw)


def test_numbers_of_other_libraries_are_numbers(box: Sandbox):
    assert box.table.rollback(np.int64(2), dry_run=True).snapshot_id == 2
    with pytest.raises(InvalidArgumentError, match="snapshot"):
        box.table.rollback(np.float64(2.0))


@pytest.mark.parametrize(
    "older_than",
    [
        "3 d",
        "P3D",
        timedelta(days=3),
        datetime.now(UTC) - timedelta(days=3),
        "2013-01-01",
        "2013-01-01T12:00Z",
        "1356998400000",
        0,
    ],
)
def test_a_table_takes_times_as_operators_do(older_than: Any, box: Sandbox):
    assert box.table.remove_orphan_files(older_than).status == "noop"
    assert box.table.expire_tags(older_than=older_than).status == "noop"


def test_a_time_that_is_none_is_refused_by_its_argument(box: Sandbox):
    for wrong in ("soon", True, 1.5, float("nan"), [], b"3 d", pd.NaT):
        with pytest.raises(InvalidArgumentError, match="older_than"):
            box.table.remove_orphan_files(wrong)


def test_a_condition_is_no_other_value(box: Sandbox):
    for wrong in (True, 1, ["k = 1"], object()):
        with pytest.raises(InvalidArgumentError, match="where"):
            box.table.compact(where=wrong)


# ── what templates leave ────────────────────────────────────────────────────────────────────────


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("action", "given", "spec"),
    [
        ("compact", {"full": "False", "dry_run": "true"}, {"full": False, "dry_run": True}),
        ("compact", {"buckets": ["0", "1"], "max_seconds": "1.5"}, {"buckets": [0, 1], "max_seconds": 1.5}),
        ("compact", {"where": "None", "full": False}, {"where": None}),
        (
            "compact",
            {"max_bytes": "50gb", "partition_idle_time": "PT1H"},
            {"max_bytes": 50 << 30, "partition_idle_time": 3_600_000},
        ),
        ("expire_snapshots", {"retain_max": "5", "older_than": "None"}, {"retain_max": 5, "older_than": None}),
        ("create_tag", {"tag": "t", "time_retained": "30 days"}, {"tag": "t", "time_retained": 30 * 86_400_000}),
        ("delete_rows", {"where": "k = 1"}, {"where": "k = 1"}),
        ("drop_partition", {"partitions": [{"p": "1"}]}, {"partitions": [{"p": "1"}]}),
    ],
)
def test_an_operator_reads_rendered_texts_by_the_kind_of_their_field(
    action: str, given: dict[str, Any], spec: dict[str, Any], box: Sandbox
):
    operator = PaimonJobOperator(task_id="t", table=str(box.path), action=action, arguments=given)

    found = operator.job(PaimonHook(), make_context()).action

    assert found == ACTIONS[action].spec(**spec)


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("action", "field", "value"),
    [
        ("compact", "full", "yes please"),
        ("compact", "full", "None"),
        ("expire_snapshots", "retain_max", "five"),
        ("expire_snapshots", "retain_max", "True"),
        ("expire_snapshots", "older_than", "nan"),
        ("expire_snapshots", "older_than", float("nan")),
        ("expire_snapshots", "files_per_second", "inf"),
    ],
)
def test_an_operator_refuses_texts_that_are_no_value(action: str, field: str, value: Any, box: Sandbox):
    before = box.table.latest_snapshot_id()
    operator = PaimonJobOperator(task_id="t", table=str(box.path), action=action, arguments={field: value})

    with pytest.raises(AirflowFailException, match=f"{action}: {field}="):
        operator.execute(make_context())
    assert box.table.latest_snapshot_id() == before
