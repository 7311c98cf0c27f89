"""Texts of options that no Java release can read are refused when a table is created or altered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.schema import TableSchema, new_schema
from paimon_engine.meta.schema_rules import check_schema
from paimon_engine.types import DataField, RowType, parse_type

COLUMNS = {
    "k": "INT NOT NULL",
    "a": "INT",
    "b": "INT",
    "m": {"type": "MAP", "key": "INT", "value": "INT"},
    "r": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 9, "name": "id", "type": "INT"}]}},
}
PARTIAL_UPDATE = {"merge-engine": "partial-update"}


def schema_with(options: Mapping[str, str]) -> TableSchema:
    fields = [DataField(number, name, parse_type(kind)) for number, (name, kind) in enumerate(COLUMNS.items())]
    options = {"bucket": "1", **options}
    return new_schema(
        RowType(tuple(fields)), primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence.field": "a, b"}, "'sequence.field' = 'a, b' has a blank .* write 'a,b'"),
        ({"sequence.field": ",a"}, "an empty name in it; write 'a'"),
        ({"sequence.field": ""}, "name a column, or leave the option out"),
        ({"sequence.field": "zz"}, "'sequence.field' = 'zz': no column 'zz'"),
        ({"sequence.field": "m"}, "'m' has no order, since maps, variants and vectors have none"),
        ({"rowkind.field": "zz"}, "'rowkind.field' = 'zz': no column 'zz'"),
        ({"bucket-key": " k"}, "write 'k'"),
        ({**PARTIAL_UPDATE, "fields.a.sequence-group": "k, b"}, "write 'k,b'"),
        ({**PARTIAL_UPDATE, "fields.m.sequence-group": "a"}, "'m' has no order"),
        ({"fields.r.nested-key": "id,id"}, "names a field twice"),
        ({"fields": "a"}, "'fields' is not an option"),
        ({"merge-engine": " aggregation"}, "choose one of deduplicate"),
        ({"ignore-delete": " true"}, "neither true nor false"),
        ({"bucket": " 1"}, "not an integer; write digits only"),
        ({"bucket": "1_0"}, "not an integer; write digits only"),
        ({"bucket": "99999999999"}, "does not fit 32 bits"),
        ({"bucket": "0" * 50 + "1"}, "does not fit 32 bits"),
        ({"num-levels": "1"}, "'num-levels' = '1' leaves no level for compacted files"),
        ({"num-sorted-run.compaction-trigger": "0"}, "'num-sorted-run.compaction-trigger' = '0' leaves no level"),
    ],
    ids=str,
)
def test_a_text_that_java_cannot_read_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_schema(schema_with(options))


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "a,b,"},
        {"bucket-key": ""},
        {"ignore-delete": "TRUE"},
        {"bucket": "+1"},
        {"dynamic-bucket.target-row-num": "99999999999"},
        {"num-levels": "2"},
        {"fields.m.sequence-group": "a"},
    ],
    ids=str,
)
def test_a_text_that_java_reads_is_taken(options: dict[str, str]) -> None:
    check_schema(schema_with(options))
