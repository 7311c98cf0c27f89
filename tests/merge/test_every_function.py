"""Every aggregate function of the registry: the same result however a history is cut, with retracts in order of arrival.

A function that comes to the registry without a case here fails the first test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_engine.merge.aggregate import FUNCTIONS
from tests.merge.engine_model import ADD, RETRACTS, TAKE_BACK, Record, skipping_nulls
from tests.merge.engine_runs import (
    CUTS,
    FLAG,
    ITEM,
    ITEMS,
    PAIRS,
    SMALL,
    TAGS,
    TEXT,
    Engine,
    cut,
    histories,
    records_of,
)

Step = Callable[[Any, Any], Any]
POOL = json.loads((Path(__file__).parents[1] / "interop" / "histories" / "sketches.json").read_text("utf-8"))


def pool(name: str) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from([bytes.fromhex(text[2:]) for text in POOL[name]])


def hll(stored: bytes) -> float:
    return round(datasketches.hll_sketch.deserialize(stored).get_estimate(), 6)


def theta(stored: bytes) -> float:
    return round(datasketches.compact_theta_sketch.deserialize(stored).get_estimate(), 6)


def without(acc: Any, value: Any) -> Any:
    """`collect` retracts one equal element for each."""
    if acc is None or not value:
        return acc
    left = list(acc)
    for element in value:
        if element in left:
            left.remove(element)
    return left


def without_rows(acc: Any, value: Any) -> Any:
    return acc if acc is None or value is None else [row for row in acc if row not in value]


def without_keys(acc: Any, value: Any) -> Any:
    return (
        acc if acc is None or value is None else [row for row in acc if row["id"] not in {one["id"] for one in value}]
    )


def divided(acc: Any, value: Any) -> Any:
    # Only ±1 are drawn, which divide everything.
    return value if acc is None else acc if value is None else acc // value


@dataclass(frozen=True)
class Case:
    """A function, its options, what is drawn for it, and what adding and taking back do, if it can be modelled."""

    function: str
    kind: pa.DataType
    values: st.SearchStrategy[Any]
    add: Step | None = None
    take_back: Step | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    form: Callable[[Any], Any] = lambda value: value


def unordered(value: Any) -> Any:
    return sorted(repr(sorted(element.items()) if isinstance(element, dict) else element) for element in value)


def numbers(stored: bytes) -> Any:
    """What does not depend on the order in which bitmaps of 64 bits were joined: their bytes do."""
    return sorted(stored)


WORDS = pa.list_(pa.string())
SIGNS = st.none() | st.sampled_from([1, -1])
WHOLE = st.lists(st.sampled_from("ab"), max_size=3)
CASES = {
    "sum": Case("sum", pa.int64(), SMALL, ADD["sum"], TAKE_BACK["sum"]),
    "sum of decimals": Case(
        "sum", pa.decimal128(12, 2), st.none() | st.decimals(-9, 9, places=2), ADD["sum"], TAKE_BACK["sum"]
    ),
    "count": Case("count", pa.int64(), st.integers(0, 3), ADD["sum"], TAKE_BACK["sum"]),
    "product": Case("product", pa.int32(), SIGNS, ADD["product"], divided),
    "max": Case("max", pa.date32(), st.none() | st.dates(), ADD["max"]),
    "min": Case("min", pa.string(), TEXT, ADD["min"]),
    "last_value": Case("last_value", pa.string(), TEXT, ADD["last_value"], TAKE_BACK["last_value"]),
    "last_non_null_value": Case(
        "last_non_null_value", WORDS, TAGS, ADD["last_non_null_value"], TAKE_BACK["last_non_null_value"]
    ),
    "first_non_null_value": Case("first_non_null_value", pa.int32(), SMALL, ADD["first_non_null_value"]),
    "first_not_null_value": Case("first_not_null_value", pa.int32(), SMALL, ADD["first_non_null_value"]),
    "first_value": Case("first_value", pa.string(), TEXT),
    "bool_and": Case("bool_and", pa.bool_(), FLAG, ADD["bool_and"]),
    "bool_or": Case("bool_or", pa.bool_(), FLAG, ADD["bool_or"]),
    "listagg": Case(
        "listagg",
        pa.string(),
        TEXT,
        skipping_nulls(lambda acc, value: f"{acc}; {value}"),
        options={"list-agg-delimiter": "; "},
    ),
    "collect": Case("collect", WORDS, WHOLE, ADD["collect"], without),
    "collect distinct": Case(
        "collect",
        WORDS,
        TAGS,
        skipping_nulls(lambda acc, value: [*{*acc, *value}]),
        options={"distinct": "true"},
        form=lambda value: unordered({*value}),
    ),
    "merge_map": Case(
        "merge_map", pa.map_(pa.string(), pa.int32()), PAIRS, ADD["merge_map"], TAKE_BACK["merge_map"], form=unordered
    ),
    "nested_update": Case(
        "nested_update", pa.list_(ITEM), ITEMS, skipping_nulls(lambda acc, value: [*acc, *value]), without_rows
    ),
    "nested_update by key": Case(
        "nested_update", pa.list_(ITEM), ITEMS, ADD["nested_update"], without_keys, {"nested-key": "id"}, unordered
    ),
    "rbm32": Case("rbm32", pa.binary(), pool("rbm32"), form=lambda stored: sorted(BitMap.deserialize(stored))),
    "rbm64": Case("rbm64", pa.binary(), pool("rbm64"), form=numbers),
    "hll_sketch": Case("hll_sketch", pa.binary(), pool("hll_sketch"), form=hll),
    "theta_sketch": Case("theta_sketch", pa.binary(), pool("theta_sketch"), form=theta),
}
ELSEWHERE = {"nested_partial_update", "merge_map_with_keytime"}
"""Functions that `test_nested` holds against models of their own, cut as well."""


def engine_of(case: Case, **more: str) -> Engine:
    own = {"aggregate-function": case.function, **case.options, **more}
    return Engine(
        {"v": case.kind}, {"merge-engine": "aggregation", **{f"fields.v.{key}": text for key, text in own.items()}}
    )


def shown(case: Case, records: Sequence[Record]) -> list[tuple[str, int, Any]]:
    return [
        (record.kind, record.row["k"], None if record.row["v"] is None else case.form(record.row["v"]))
        for record in records
    ]


def modelled(case: Case, history: Sequence[Record]) -> list[Record]:
    """What each key becomes, its records taken one after another."""
    found = {}
    for record in history:
        key, value = record.row["k"], record.row["v"]
        if key not in found:
            found[key] = [record, None if record.kind in RETRACTS else value, 1]
            if record.kind in RETRACTS:
                assert case.take_back is not None
                found[key][1] = case.take_back(None, value)
            elif case.add is not None:
                found[key][1] = case.add(None, value)
            continue
        step = case.take_back if record.kind in RETRACTS else case.add
        assert step is not None
        found[key][1:] = [step(found[key][1], value), found[key][2] + 1]
    return [
        first if count == 1 else Record("+I", {"k": key, "v": value})
        for key, (first, value, count) in sorted(found.items())
    ]


def test_every_function_of_the_registry_has_a_case() -> None:
    assert {case.function for case in CASES.values()} | ELSEWHERE == {*FUNCTIONS}


def test_every_function_that_takes_back_is_modelled_doing_so() -> None:
    taking = {name for name, function in FUNCTIONS.items() if function.retracts}

    assert {case.function for case in CASES.values() if case.take_back is not None} == taking


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15, deadline=None)
@given(data=st.data(), cuts=CUTS)
def test_a_function_gives_the_same_however_the_history_is_cut(name: str, data: st.DataObject, cuts: list[int]) -> None:
    case = CASES[name]
    history = data.draw(histories({"v": case.values}, max_size=12))
    if not history:
        return
    engine = engine_of(case)
    runs = cut(engine, history, cuts)

    at_once = shown(case, records_of(engine.join(runs)))
    oldest_first, newest_first = runs[0], runs[-1]
    for run in runs[1:]:
        oldest_first = engine.join([oldest_first, run])
    for run in runs[-2::-1]:
        newest_first = engine.join([run, newest_first])

    assert shown(case, records_of(engine.flush(history))) == at_once
    assert shown(case, records_of(oldest_first)) == at_once
    assert shown(case, records_of(newest_first)) == at_once
    if case.add is not None:
        assert at_once == shown(case, modelled(case, history))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.take_back is not None])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_function_takes_back_the_same_in_one_merge_and_run_by_run(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    history = data.draw(histories({"v": case.values}, ["+I", "+U", "-U", "-D"], max_size=12))
    if not history:
        return
    engine = engine_of(case)
    run_by_run = engine.flush(history[:1])
    for index in range(1, len(history)):
        run_by_run = engine.join([run_by_run, engine.flush(history[index : index + 1], index)])

    at_once = shown(case, records_of(engine.flush(history)))

    assert at_once == shown(case, modelled(case, history))
    lone = {record.row["k"] for record in history if [one.row["k"] for one in history].count(record.row["k"]) == 1}
    # A retract that comes first stays one until it is merged with another record, and is then retracted from nothing.
    assert shown(case, records_of(run_by_run)) == at_once or lone


# A run of retracts alone becomes a row with null, as in Java, which these two take for a value.
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("last_value", "first_value")])
@settings(max_examples=8, deadline=None)
@given(data=st.data(), cuts=CUTS)
def test_ignored_retracts_leave_the_value_however_the_history_is_cut(
    name: str, data: st.DataObject, cuts: list[int]
) -> None:
    case = CASES[name]
    adds = [Record("+I", {"k": key, "v": data.draw(case.values)}) for key in (0, 1, 1)]
    later = data.draw(histories({"v": case.values}, ["+I", "-U", "-D"], max_size=8))
    history = [*adds, *(record for record in later if record.row["k"] < 2)]
    engine = engine_of(case, **{"ignore-retract": "true"})
    kept = [record for record in history if record.kind not in RETRACTS]

    bounds = sorted({3, len(history), *(index for index in cuts if 3 < index < len(history))})
    rest = [engine.flush(history[low:high], low) for low, high in pairwise(bounds)]
    joined = shown(case, records_of(engine.join([engine.flush(adds), *rest])))

    expected = shown(case, records_of(engine.flush(kept)))
    assert [value for _, _, value in joined] == [value for _, _, value in expected]
