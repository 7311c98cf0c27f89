"""None for a list or a map that may be left out means that it is not given, wherever people call the engine."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, open_table
from paimon_engine.jobs import ACTIONS, CatalogRef, Job, NewTable, StorageRef, TableRef, job_schema
from paimon_engine.specs import fields_of
from tests.support.public_hints import hints_of

SPECS = [TableRef, StorageRef, CatalogRef, NewTable, Job, *(info.spec for info in ACTIONS.values())]
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def holds_many(hint: Any) -> bool:
    """Whether an annotation says list or map."""
    kind = typing.get_origin(hint) or hint
    if kind is typing.Annotated:
        return holds_many(typing.get_args(hint)[0])
    if kind in (typing.Union, types.UnionType):
        return any(map(holds_many, typing.get_args(hint)))
    return isinstance(kind, type) and issubclass(kind, Sequence | Mapping) and not issubclass(kind, str | bytes)


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "open_table", open_table
    for owner in (Catalog, Table):
        for name, call in inspect.getmembers(owner, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                yield f"{owner.__name__}.{name}", call


def optional_arguments() -> list[tuple[str, str]]:
    """Call and argument, for all lists and maps that may be left out."""
    return [
        (name, argument.name)
        for name, call in public_calls()
        for argument in inspect.signature(call).parameters.values()
        if argument.default is not argument.empty and holds_many(hints_of(call)[argument.name])
    ]


@pytest.mark.parametrize(("name", "argument"), optional_arguments())
def test_the_default_of_every_list_and_map_of_the_facade_is_none(name: str, argument: str):
    call = dict(public_calls())[name]

    assert inspect.signature(call).parameters[argument].default is None
    assert type(None) in typing.get_args(hints_of(call)[argument])


@pytest.mark.parametrize(
    ("spec", "field"),
    [(s, f.name) for s in SPECS for f in fields_of(s) if holds_many(f.hint) and not f.is_required],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_none_is_the_default_of_every_list_and_map_of_a_spec(spec: type, field: str):
    needed = {"table": TableRef(path="/t"), "action": ACTIONS["verify"].spec(), "commit_user": "u"}
    given = {f.name: needed.get(f.name, "x=1") for f in fields_of(spec) if f.is_required}

    assert spec(**given, **{field: None}) == spec(**given)


def test_a_table_is_created_without_keys_and_options(tmp_path):
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=None, partition_keys=None, options=None
    )

    assert (table.schema.primary_keys, table.schema.partition_keys) == ((), ())


@pytest.mark.parametrize("argument", ["primary_keys", "partition_keys"])
def test_a_single_text_is_not_a_list_of_keys(tmp_path, argument: str):
    with pytest.raises(InvalidArgumentError, match=f"{argument}='k': give a list of names"):
        Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, **{argument: "k"})


def test_clustering_without_columns_needs_the_option(tmp_path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA)

    with pytest.raises(InvalidArgumentError) as left_out:
        table.cluster()
    with pytest.raises(InvalidArgumentError) as none:
        table.cluster(None)
    assert str(none.value) == str(left_out.value)


@pytest.mark.parametrize(
    "more",
    [
        {"table_options": None, "table_secrets": None},
        {"storage": {"options": None, "secrets": None}, "catalog": {"options": None, "secrets": None}},
        {"create": {"primary_keys": None, "partition_keys": None, "options": None}},
        {"action": {"name": "cluster", "columns": None}},
    ],
)
def test_null_in_a_job_is_not_given(more: dict[str, Any]):
    plain = {"version": 1, "table": {"path": "/t"}, "commit_user": "u", "action": {"name": "cluster"}}
    empty = {"create": {}} if "create" in more else {}

    jsonschema.validate({**plain, **more}, job_schema())
    assert Job.from_json(json.dumps({**plain, **more})) == Job.from_json(json.dumps({**plain, **empty}))
