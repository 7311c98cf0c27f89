"""The one decoder: texts, JSON and values of Python become the typed values of a spec, or an error that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pandas as pd
import pendulum
import pytest

from paimon_engine import InvalidArgumentError, col
from paimon_engine.jobs import ACTIONS, Job
from paimon_engine.specs import Edge, decode, fields_of

NOW_MS = int(datetime(2013, 1, 8, tzinfo=UTC).timestamp() * 1000)
WEEK_AGO_MS = 1_356_998_400_000
DAY_MS = 86_400_000
GIB = 1 << 30
EDGE = Edge(now_ms=NOW_MS, zone=UTC)


def read(action: str, field: str, value: Any, edge: Edge = EDGE) -> Any:
    needed = {item.name: "x=1" for item in fields_of(ACTIONS[action].spec) if item.is_required}
    return getattr(decode(ACTIONS[action].spec, {**needed, field: value}, name=action, edge=edge), field)


@pytest.mark.parametrize(
    ("action", "field", "given", "value"),
    [
        *(("compact", "full", given, True) for given in (True, "true", "True", " TRUE ", "yes", "1")),
        *(("compact", "full", given, False) for given in (False, "false", "False", "no", "0")),
        *(("expire_snapshots", "retain_max", given, 3) for given in (3, "3", " 3 ", "+3")),
        *(("expire_snapshots", "retain_max", given, None) for given in (None, "", "None", "null", " none ")),
        *(("compact", "max_seconds", given, 1.5) for given in (1.5, "1.5")),
        *(("compact", "max_bytes", given, 50 * GIB) for given in (50 * GIB, "50gb", "50 GB", str(50 * GIB))),
        *(
            ("compact", "partition_idle_time", given, 30 * DAY_MS)
            for given in ("30 days", "P30D", timedelta(days=30), pendulum.duration(days=30))
        ),
        *(("create_tag", "time_retained", given, 3_600_000) for given in ("PT1H", "1h", "60 min", 3_600_000)),
        *(("compact", "buckets", given, [0, 3]) for given in ([0, 3], ["0", "3"], "0, 3", "[0, 3]", "['0', '3']")),
        ("compact", "buckets", "7", [7]),
        ("compact", "where", "None", "None"),
        ("compact", "where", col("day") > 1, "`day` > 1"),
        *(("cluster", "columns", given, ["a", "b"]) for given in (["a", "b"], "a,b", '["a", "b"]')),
        *(("write", "overwrite", given, {"p": "a"}) for given in ({"p": "a"}, "p=a", '{"p": "a"}', "{'p': 'a'}")),
        ("write", "overwrite", "{}", {}),
        ("write", "source", "a,b.parquet", "a,b.parquet"),
        ("drop_partition", "partitions", "day=1,hour=5", [{"day": "1", "hour": "5"}]),
        ("drop_partition", "partitions", ["day=1", {"day": 2}], [{"day": "1"}, {"day": 2}]),
        ("drop_partition", "partitions", '[{"day": 1}]', [{"day": 1}]),
        *(
            ("remove_orphan_files", "older_than", given, WEEK_AGO_MS)
            for given in (
                datetime(2013, 1, 1, tzinfo=UTC),
                datetime(2013, 1, 1),
                datetime(2013, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
                "2013-01-01",
                "2013-01-01T00:00:00+00:00",
                "2013-01-01T01:00:00+01:00",
                pendulum.datetime(2013, 1, 1, 1, tz="Europe/Berlin"),
                pd.Timestamp("2013-01-01T00:00:00.000999", tz="UTC"),
                timedelta(days=7),
                pendulum.duration(weeks=1),
                "7 d",
                "P7D",
                WEEK_AGO_MS,
                str(WEEK_AGO_MS),
            )
        ),
    ],
)
def test_other_forms_of_a_value_are_read(action: str, field: str, given: Any, value: Any):
    found = read(action, field, given)

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("action", "field", "given", "allowed"),
    [
        *(("compact", "full", given, "true or false") for given in ("", "maybe", None, 1, "None")),
        *(("expire_snapshots", "retain_max", given, "integer") for given in ("three", "3.5", 3.5, True, [3], "0")),
        *(("compact", "max_bytes", given, "a size such as '50 gb'") for given in ("much", "-1 gb", "0", 1.5, "1e3")),
        *(("create_tag", "time_retained", given, "30 days") for given in ("soon", "3 fortnights", "-1 d", "0", [])),
        *(("expire_snapshots", "older_than", given, "an age such as") for given in ("yesterday", "2013-13-01", True)),
        *(("compact", "max_seconds", given, "a number") for given in ("soon", "1 h", "0")),
        *(("compact", "buckets", given, "a list") for given in ("one", "{}", "[1", "-1", [None])),
        *(("drop_partition", "partitions", given, "COLUMN|column") for given in ("day", "", [""], "[1]")),
        *(("write", "overwrite", given, "values by column") for given in ("p", "[1]", "{1", 7)),
        *(("compact", "max_seconds", given, "NaN and infinity") for given in ("nan", "inf", float("nan"))),
        *(("compact", "where", given, "cannot read the filter") for given in ("p = ", "p = 'x", "a b c", "(((")),
        ("delete_rows", "where", "k = 1 and", "incomplete or not understood at 'and', character 9"),
        ("alter_table", "changes", "drop it", "a list"),
        ("create_tag", "if_exists", "perhaps", "'verify' or 'error'"),
    ],
)
def test_what_is_no_value_is_refused_by_action_field_and_value(action: str, field: str, given: Any, allowed):
    with pytest.raises(InvalidArgumentError, match=allowed) as refused:
        read(action, field, given)

    assert str(refused.value).startswith(f"{action}: {field}=")


def test_templates_write_none_where_there_is_no_value():
    rendered = Edge(is_rendered=True)

    assert [read("compact", "where", given, rendered) for given in ("None", "", "null", "x = 1")] == [
        *[None] * 3,
        "x = 1",
    ]
    for given in ("None", "", "null"):
        with pytest.raises(InvalidArgumentError, match="give a name as text"):
            read("delete_tag", "tag", given, rendered)
        for action, field, value in (("export_files", "target", given), ("write", "source", [given, "a.parquet"])):
            with pytest.raises(InvalidArgumentError, match="give .*a path or an address as text"):
                read(action, field, value, rendered)
    for action, field, none in (
        ("write", "overwrite", {"day": "None"}),
        ("write", "overwrite", "day=None"),
        ("drop_partition", "partitions", [{"day": "2024-02-29"}, {"day": "None"}]),
        ("drop_partition", "partitions", "[{'day': 'None'}]"),
        ("mark_partition_done", "partitions", [{"day": "None"}]),
    ):
        with pytest.raises(InvalidArgumentError, match=f"^{action}: {field}=.*a template left no value for day"):
            read(action, field, none, rendered)
    assert read("delete_tag", "tag", "None", Edge()) == "None"
    assert read("write", "overwrite", {"day": "None"}, Edge()) == {"day": "None"}
    assert read("write", "overwrite", {"day": None}, rendered) == {"day": None}
    assert read("export_files", "target", "None", Edge()) == "None"


@pytest.mark.parametrize(
    "span",
    [
        timedelta(days=3), timedelta(days=1, hours=2), timedelta(hours=30, minutes=5), timedelta(minutes=7),
        timedelta(days=400, seconds=1.5),
    ],
    ids=str,
)  # fmt: skip
def test_templates_make_texts_of_time_spans(span: timedelta):
    rendered = Edge(now_ms=NOW_MS, zone=UTC, is_rendered=True)

    assert read("create_tag", "time_retained", str(span), rendered) == span // timedelta(milliseconds=1)
    assert read("expire_snapshots", "older_than", str(span), rendered) == NOW_MS - span // timedelta(milliseconds=1)
    with pytest.raises(InvalidArgumentError, match="time_retained"):
        read("create_tag", "time_retained", str(-span), rendered)
    with pytest.raises(InvalidArgumentError, match="time_retained"):
        read("create_tag", "time_retained", str(span), EDGE)


def test_specs_made_in_python_are_read_too():
    found = ACTIONS["compact"].spec(full="False", max_bytes="1 kb", partition_idle_time=timedelta(days=1))

    assert (found.full, found.max_bytes, found.partition_idle_time) == (False, 1024, DAY_MS)


@pytest.mark.parametrize("action", ACTIONS)
def test_what_was_read_is_read_again_as_it_is(action: str):
    """The typed form of a spec is a fixed point: its JSON, and that as texts, give it again."""
    given: Mapping[str, Any] = {
        "full": "true", "max_bytes": "50gb", "partition_idle_time": "1 d", "older_than": "7 d", "retain_max": "5",
        "timestamp": "2013-01-01", "time_retained": "30 days", "files_per_second": "2.5", "buckets": "1,2",
        "expiration_time": "30 days", "dry_run": "True", "source": "x", "tag": "t", "to": "u", "branch": "b",
        "quarantine": "true", "where": "k = 1", "consumer": "c", "partitions": "day=1",
        "changes": '[{"change": "drop_column", "name": "a"}]', "columns": "a,b", "overwrite": "p=1",
        "target": "/x", "partition_by": "a", "limit": "5",
    }  # fmt: skip
    if action == "create_table":
        given = {**given, "columns": "a=INT,b=STRING"}  # with their types
    spec = ACTIONS[action].spec
    first = decode(spec, {item.name: given[item.name] for item in fields_of(spec) if item.name in given}, edge=EDGE)
    typed = {item.name: getattr(first, item.name) for item in fields_of(spec)}

    def as_text(value: Any) -> Any:
        return value if value is None or isinstance(value, str) else json.dumps(value)

    assert decode(spec, json.loads(json.dumps(typed)), edge=EDGE) == decode(spec, typed, edge=EDGE)
    assert decode(spec, {name: as_text(value) for name, value in typed.items()}, edge=EDGE) == decode(
        spec, json.loads(json.dumps(typed)), edge=EDGE
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_every_field_has_a_line_of_help(action: str):
    for item in fields_of(ACTIONS[action].spec):
        assert item.help, item.name
        assert "\n" not in item.help
        assert not item.help.endswith(".")


@pytest.mark.parametrize(
    ("action", "typed"),
    [
        ({"name": "compact", "full": "False", "max_bytes": "50gb"}, {"full": False, "max_bytes": 50 * GIB}),
        ({"name": "expire_snapshots", "dry_run": "False", "retain_max": "1"}, {"dry_run": False, "retain_max": 1}),
        ({"name": "remove_orphan_files", "older_than": "2013-01-01"}, {"older_than": WEEK_AGO_MS}),
    ],
)
def test_a_job_of_texts_is_the_job_of_typed_values(action: dict[str, Any], typed: dict[str, Any]):
    job = {"version": 1, "table": {"path": "/t"}, "commit_user": "u"}

    found = Job.from_json(json.dumps({**job, "action": action})).action

    assert found == ACTIONS[action["name"]].spec(**typed)
