"""Functions over nested tables against a model that walks row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import InvalidArgumentError
from tests.merge import engine_model
from tests.merge.engine_model import Group, PartialUpdate, Record, aggregated
from tests.merge.engine_runs import (
    CUTS,
    SMALL,
    Engine,
    assert_same_however_cut,
    canonical,
    histories,
    modelled,
    records_of,
)
from tests.merge.nested_model import map_with_key_time, nested_partial_update, nested_take_back, nested_update

LINE = pa.struct([("id", pa.int32()), ("sub", pa.string()), ("seq", pa.int64()), ("note", pa.string())])
LINES = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(0, 2),
            "sub": st.sampled_from("xy"),
            "seq": st.none() | st.integers(0, 3),
            "note": st.none() | st.sampled_from("abc"),
        }
    ),
    max_size=3,
)
STAMPED = pa.map_(pa.string(), pa.struct([("note", pa.string()), ("ts", pa.string())]))
TIMES = ["1", "2", "\uffee", "\U0001f600"]
ENTRY = st.fixed_dictionaries({"note": st.sampled_from("abc"), "ts": st.none() | st.sampled_from(TIMES)})
ENTRIES = st.none() | st.dictionaries(st.sampled_from("kl"), ENTRY, max_size=2).map(lambda found: sorted(found.items()))
LEAKY = st.none() | st.dictionaries(st.sampled_from("kl"), st.none() | ENTRY, max_size=2).map(
    lambda found: sorted(found.items())
)

NESTED: Mapping[str, tuple[dict[str, str], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "nested_update limited": ({"count-limit": "2"}, nested_update(limit=2), nested_take_back()),
    "nested_update sequenced": (
        {"nested-key": "id", "nested-sequence-field": "seq"},
        nested_update(["id"], sequence=["seq"]),
        nested_take_back(["id"]),
    ),
    "nested_update strict": (
        {"nested-key": "id,sub", "nested-key-null-strategy": "ignore", "nested-sequence-field": "note,seq"},
        nested_update(["id", "sub"], sequence=["note", "seq"], nulls="ignore"),
        nested_take_back(["id", "sub"], nulls="ignore"),
    ),
    "nested_update merged": (
        {"nested-key": "id", "nested-key-null-strategy": "merge"},
        nested_update(["id"]),
        nested_take_back(["id"]),
    ),
}
LIMITED = {
    "nested_update narrow": (
        {"nested-key": "id", "count-limit": "2", "nested-sequence-field": "seq"},
        nested_update(["id"], limit=2, sequence=["seq"]),
        nested_take_back(["id"]),
    )
}
PARTIAL: Mapping[str, tuple[dict[str, str], Callable[[Any, Any], Any]]] = {
    "nested_partial_update": ({"nested-key": "id"}, nested_partial_update(["id"])),
    "nested_partial_update strict": (
        {"nested-key": "id,sub", "nested-key-null-strategy": "ignore"},
        nested_partial_update(["id", "sub"], nulls="ignore"),
    ),
}


@pytest.fixture(autouse=True)
def _functions(monkeypatch: pytest.MonkeyPatch) -> None:
    adds = {name: found[1] for name, found in {**NESTED, **LIMITED, **PARTIAL}.items()}
    taking = {name: found[2] for name, found in {**NESTED, **LIMITED}.items()}
    monkeypatch.setattr(engine_model, "ADD", {**engine_model.ADD, **adds, "merge_map_with_keytime": map_with_key_time})
    monkeypatch.setattr(engine_model, "TAKE_BACK", {**engine_model.TAKE_BACK, **taking})


def engine_of(name: str, kind: pa.DataType, options: Mapping[str, str], engine: str = "aggregation") -> Engine:
    own = {"aggregate-function": name.split(maxsplit=1)[0], **options}
    grouped = {"fields.g.sequence-group": "v"} if engine == "partial-update" else {}
    columns = {"g": pa.int32(), "v": kind} if grouped else {"v": kind}
    return Engine(
        columns, {"merge-engine": engine, **grouped, **{f"fields.v.{key}": text for key, text in own.items()}}
    )


def ordered(records: list[Record]) -> Any:
    return canonical(records, ["v"])


@pytest.mark.parametrize("name", [*NESTED, *PARTIAL])
@settings(max_examples=60, deadline=None)
@given(history=histories({"v": LINES}, max_size=14), cuts=CUTS)
def test_nested_tables_do_not_depend_on_how_the_history_is_cut(
    name: str, history: list[Record], cuts: list[int]
) -> None:
    engine = engine_of(name, pa.list_(LINE), {**NESTED, **PARTIAL}[name][0])
    expected = modelled(history, lambda records: aggregated(records, {"v": name}))

    assert_same_however_cut(engine, history, cuts, expected, ["v"])


@pytest.mark.parametrize("name", [*NESTED, *LIMITED])
@settings(max_examples=60, deadline=None)
@given(history=histories({"v": LINES}, ["+I", "+I", "-U"], max_size=14))
def test_nested_tables_take_rows_back(name: str, history: list[Record]) -> None:
    engine = engine_of(name, pa.list_(LINE), {**NESTED, **LIMITED}[name][0])
    expected = modelled(history, lambda records: aggregated(records, {"v": name}))

    assert ordered(records_of(engine.flush(history))) == ordered(expected)


@pytest.mark.parametrize("name", [*NESTED, *LIMITED, *PARTIAL])
@settings(max_examples=60, deadline=None)
@given(history=histories({"g": SMALL, "v": LINES}, max_size=14))
def test_nested_tables_are_merged_below_newer_ones_in_a_sequence_group(name: str, history: list[Record]) -> None:
    engine = engine_of(name, pa.list_(LINE), {**NESTED, **LIMITED, **PARTIAL}[name][0], "partial-update")
    expected = modelled(history, PartialUpdate([Group(("g",), {"v": name})], []).merged)

    assert ordered(records_of(engine.flush(history))) == ordered(expected)


@settings(max_examples=100, deadline=None)
@given(histories({"v": ENTRIES}, max_size=16), CUTS)
def test_the_newest_entry_stays_however_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    engine = engine_of("merge_map_with_keytime", STAMPED, {"ts-field": "ts"})
    expected = modelled(history, lambda records: aggregated(records, {"v": "merge_map_with_keytime"}))

    assert_same_however_cut(engine, history, cuts, expected, ["v"])


@settings(max_examples=100, deadline=None)
@given(histories({"v": LEAKY}, max_size=16))
def test_an_entry_without_a_row_takes_away_that_of_its_key(history: list[Record]) -> None:
    engine = engine_of("merge_map_with_keytime", STAMPED, {})
    expected = modelled(history, lambda records: aggregated(records, {"v": "merge_map_with_keytime"}))

    assert ordered(records_of(engine.flush(history))) == ordered(expected)


@settings(max_examples=100, deadline=None)
@given(histories({"g": SMALL, "v": LEAKY}, max_size=16))
def test_maps_are_merged_below_newer_ones_in_a_sequence_group(history: list[Record]) -> None:
    engine = engine_of("merge_map_with_keytime", STAMPED, {}, "partial-update")
    expected = modelled(history, PartialUpdate([Group(("g",), {"v": "merge_map_with_keytime"})], []).merged)

    assert ordered(records_of(engine.flush(history))) == ordered(expected)


def test_a_null_in_a_nested_key_can_be_an_error() -> None:
    engine = engine_of("nested_update", pa.list_(LINE), {"nested-key": "id", "nested-key-null-strategy": "error"})
    line = {"id": None, "sub": "x", "seq": 1, "note": None}

    with pytest.raises(InvalidArgumentError, match=r"null in its key.*'ignore' leaves such rows out"):
        engine.flush([Record("+I", {"k": 0, "v": [line]})] * 2)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (LINE, {"aggregate-function": "nested_update", "nested-sequence-field": "seq"}, "set 'fields.v.nested-key'"),
        (LINE, {"aggregate-function": "nested_update", "nested-key-null-strategy": "ignore"}, "'fields.v.nested-key'"),
        (LINE, {"aggregate-function": "nested_partial_update"}, "set 'fields.v.nested-key'"),
        (
            LINE,
            {"aggregate-function": "nested_update", "nested-key": "id", "nested-sequence-field": "zz"},
            "have no field 'zz'",
        ),
        (
            LINE,
            {"aggregate-function": "nested_update", "nested-key": "id", "nested-key-null-strategy": "drop"},
            "choose one of merge, ignore, error",
        ),
        (LINE, {"aggregate-function": "nested_update", "count-limit": "few"}, "not an integer"),
        (LINE, {"aggregate-function": "merge_map_with_keytime"}, "takes MAP to ROW"),
    ],
)
def test_nested_options_that_do_not_fit_are_refused(kind: pa.DataType, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        engine_of(options["aggregate-function"], pa.list_(kind), options)


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ([("ts", pa.string())], {}, "need two fields"),
        ([("ts", pa.string()), ("n", pa.int32())], {}, "field 'n' .* must be a text"),
        ([("ts", pa.string()), ("n", pa.int32())], {"ts-field": "zz"}, "have no field 'zz'"),
    ],
)
def test_the_time_of_a_map_must_be_a_text(
    row: list[tuple[str, pa.DataType]], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        engine_of("merge_map_with_keytime", pa.map_(pa.string(), pa.struct(row)), options)


def merged_value(engine: Engine, values: list[Any], kinds: str = "++++") -> Any:
    history = [Record(f"{kinds[n]}{'I' if kinds[n] == '+' else 'U'}", {"k": 0, "v": v}) for n, v in enumerate(values)]
    (merged,) = records_of(engine.flush(history))
    return merged.row["v"]


def test_of_two_entries_of_equal_time_the_first_one_stays() -> None:
    engine = engine_of("merge_map_with_keytime", STAMPED, {})
    values = [[("k", {"note": note, "ts": "1"})] for note in "abc"]

    assert merged_value(engine, values) == values[0]


def test_times_compare_as_java_compares_strings() -> None:
    engine = engine_of("merge_map_with_keytime", STAMPED, {})
    values = [[("k", {"note": "a", "ts": "\U0001f600"})], [("k", {"note": "b", "ts": "\uffee"})]]

    assert merged_value(engine, values) == merged_value(engine, values[::-1]) == values[1]


@pytest.mark.parametrize("kinds", ["+++", "++-"])
def test_of_two_rows_of_equal_sequence_the_last_one_stays(kinds: str) -> None:
    engine = engine_of("nested_update", pa.list_(LINE), {"nested-key": "id", "nested-sequence-field": "seq"})
    first, second, other = ({"id": n // 2, "sub": "x", "seq": 1, "note": str(n)} for n in range(3))

    assert second in merged_value(engine, [[first], [second], [other]], kinds)
