"""Texts of options that no Java release can read are refused when a table is created or altered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
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
BLOOM, BITMAP, RANGES = (f"file-index.{kind}.columns" for kind in ("bloom-filter", "bitmap", "range-bitmap"))
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
        ({"metadata.stats-mode": "foo"}, "option 'metadata.stats-mode': stats mode must be"),
        ({"changelog-file.stats-mode": "foo"}, "option 'changelog-file.stats-mode': stats mode must be"),
        ({"fields.a.stats-mode": "foo"}, "option 'fields.a.stats-mode': stats mode must be"),
        ({"metadata.stats-mode.per.level": "0:foo"}, "option 'metadata.stats-mode.per.level': stats mode must be"),
        ({"sink.process-time-zone": "Mars"}, "option 'sink.process-time-zone' = 'Mars' is not a time zone"),
        ({"sink.watermark-time-zone": "Mars"}, "option 'sink.watermark-time-zone' = 'Mars' is not a time zone"),
        ({"tag.batch.customized-name": "a/b"}, "option 'tag.batch.customized-name': tag name 'a/b' must be a plain"),
        ({"tag.automatic-creation": "process-time", "tag.creation-delay": "1 d"}, "'tag.creation-delay' = 1 day"),
        (
            {BLOOM: "a", "file-index.bloom-filter.a.fpp": "abc"},
            "'file-index.bloom-filter.a.fpp' = 'abc' is not a number",
        ),
        ({BLOOM: "a", "file-index.bloom-filter.a.fpp": "2"}, "'file-index.bloom-filter.a.fpp' = '2.0'; use a number"),
        (
            {BLOOM: "a", "file-index.bloom-filter.a.fpp": "nan"},
            "'file-index.bloom-filter.a.fpp' = 'nan' is not a number",
        ),
        (
            {BLOOM: "a", "file-index.bloom-filter.a.items": "0"},
            "'file-index.bloom-filter.a.items' = '0'; use a positive",
        ),
        ({BLOOM: "a", "file-index.bloom-filter.a.items": "9999999999"}, "items = 9999999999 .* larger than 256 MiB"),
        ({BITMAP: "a", "file-index.bitmap.a.version": "7"}, "'file-index.bitmap.a.version' = '7'; choose 1 or 2"),
        ({BITMAP: "a", "file-index.bitmap.a.index-block-size": "abc"}, "'file-index.bitmap.a.index-block-size': 'abc'"),
        ({RANGES: "a", "file-index.range-bitmap.a.chunk-size": "abc"}, "'file-index.range-bitmap.a.chunk-size': 'abc'"),
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


def of_columns(columns: Mapping[str, Any], options: Mapping[str, str]) -> TableSchema:
    """A schema with the key `k` and these columns, each of a type or its text."""
    types = {"k": "INT NOT NULL", **columns}
    fields = [
        DataField(number, name, parse_type(kind) if isinstance(kind, str) else kind)
        for number, (name, kind) in enumerate(types.items())
    ]
    options = {"bucket": "1", **options}
    return new_schema(
        RowType(tuple(fields)), primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0
    )


def row_of(name: str) -> RowType:
    return RowType((DataField(9, name, parse_type("INT")),))


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_a_blank_name_is_refused(name: str) -> None:
    for columns in ({name: "INT"}, {"r": row_of(name)}):
        with pytest.raises(InvalidArgumentError, match="must not be blank"):
            check_schema(of_columns(columns, {}))


@pytest.mark.parametrize("kind", ["CHAR", "VARCHAR", "BINARY", "VARBINARY"])
def test_a_length_that_java_cannot_read_is_refused(kind: str) -> None:
    check_schema(of_columns({"v": f"{kind}(2147483647)"}, {}))
    with pytest.raises(InvalidArgumentError, match="a length of 1 to 2147483647"):
        check_schema(of_columns({"v": f"{kind}(2147483648)"}, {}))


@pytest.mark.parametrize("option", ["file.format", "changelog-file.format"])
@pytest.mark.parametrize("name", ["a.b", "a b", "1a", "a`b", "a-b", "\U0001d49c", "²"])
def test_names_that_avro_does_not_have_are_refused(name: str, option: str) -> None:
    for columns in ({name: "INT"}, {"r": row_of(name)}):
        check_schema(of_columns(columns, {}))
        check_schema(of_columns({"ü1": "INT", "_": row_of("A_٣")}, {option: "avro"}))
        with pytest.raises(UnsupportedError, match="Avro files of other engines have names of letters"):
            check_schema(of_columns(columns, {option: "avro"}))


def shredding(kind: Any, name: str = "v") -> dict[str, str]:
    return {"variant.shreddingSchema": json.dumps({"type": "ROW", "fields": [{"id": 0, "name": name, "type": kind}]})}


def in_lists(depth: int) -> Any:
    return "INT" if depth == 0 else {"type": "ARRAY", "element": in_lists(depth - 1)}


SHARE, KEPT_SHARE = "variant.shredding.minFieldCardinalityRatio", "variant.shredding.adaptive.retentionRatio"
ADAPTIVE = {"variant.shredding.inferenceMode": "adaptive"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant.shreddingSchema": "ROW<a INT>"}, "'variant.shreddingSchema' is not the JSON text of a type"),
        ({"variant.shreddingSchema": '"INT"'}, "is not a ROW; write a ROW with a type for each"),
        ({"parquet.variant.shreddingSchema": "[]"}, "'variant.shreddingSchema' is not the JSON text"),
        (shredding("DATE"), "has a DATE at v, for which VARIANT has no column in Java"),
        (shredding({"type": "ROW", "fields": []}), "has no fields, or one twice, at v"),
        (shredding({"type": "MAP", "key": "STRING", "value": "INT"}), "has a .*MAP.* at v"),
        (shredding(in_lists(31)), "has more than 30 types within each other at v"),
        ({"variant.shredding.maxInferBufferRow": "0"}, "'variant.shredding.maxInferBufferRow' = '0'; use a positive"),
        ({SHARE: "1.5"}, f"'{SHARE}' = '1.5'; use a number from 0 to 1"),
        (ADAPTIVE | {KEPT_SHARE: "0.5"}, f"'{KEPT_SHARE}' must not be above '{SHARE}', which is 0.1"),
        ({"variant.shredding.inferenceMode": "fast"}, "choose one of per-file, adaptive"),
    ],
    ids=str,
)
def test_columns_of_variants_that_no_file_has_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_schema(schema_with(options))


@pytest.mark.parametrize("options", [shredding(in_lists(30)), shredding("INT", "dropped"), {SHARE: "0.01"}], ids=str)
def test_columns_of_variants_that_a_file_can_have_are_taken(options: dict[str, str]) -> None:
    check_schema(schema_with(options))
