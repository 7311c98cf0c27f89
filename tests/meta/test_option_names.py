"""Names of options that are nearly those of Paimon's: reported at creation, when altered and when opened, refused in strict mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption, Table, open_table
from paimon_engine.actions.verify import Verify
from paimon_engine.errors import PaimonWarning
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.options.names import STRICT_VARIABLE, check_names, is_known, nearest
from tests.meta.option_list import KNOWN, named

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("buckt", "bucket"),
        ("bukcet", "bucket"),
        ("Bucket", "bucket"),
        ("merge_engine", "merge-engine"),
        ("snapshot.num-retained-max", "snapshot.num-retained.max"),
        ("fields.v.agregate-function", "fields.v.aggregate-function"),
        ("fields.a,b.sequence-groups", "fields.a,b.sequence-group"),
        ("scan.paralelism", "scan.parallelism"),
        ("fields.v.aggregation", "fields.v.aggregate-function"),
        ("fields.v.aggregate.function", "fields.v.aggregate-function"),
        ("fields.v.seq-group", "fields.v.sequence-group"),
        ("fields.v.nonsense", None),
        ("metadata.iceberg.storge", "metadata.iceberg.storage"),
        ("metadata.iceberg.storge-location", "metadata.iceberg.storage-location"),
        ("metadata.iceberg.enabled", None),
        ("file-index.blom-filter.column", "file-index.bloom-filter.columns"),
        ("file-index.bloom-filter.v.itmes", "file-index.bloom-filter.v.items"),
        ("file-index.columns", None),
        ("file-index.bitmap.v.items", None),
        ("parquet.blok.size", "parquet.block.size"),
        ("parquet.enable.dictionry#v", "parquet.enable.dictionary#v"),
        ("orc.stripe.sizes", "orc.stripe.size"),
        ("avro.codecs", "avro.codec"),
        ("our-own-note", None),
        ("team", None),
    ],
)
def test_the_nearest_name_is_found(name: str, near: str | None) -> None:
    assert not is_known(name)
    assert nearest(name) == near


def test_every_option_of_java_and_its_families_is_known() -> None:
    groups = [KNOWN["implemented"], *KNOWN["harmless"].values(), *KNOWN["refused"].values(), KNOWN["refused elsewhere"]]
    names = [named(name) for group in groups for name in group]

    assert [name for name in names if not is_known(name)] == []
    for name in ("fields.a.b.aggregate-function", "fields.default-aggregate-function", "tag.callback.x.Y.param",
                 "file-index.bloom-filter.v.items", "orc.bloom.filter.columns", "metadata.iceberg.uri", "connector",
                 "sink.parallelism", "primary-key", "partition", "parquet.compression#v", "parquet.block.size",
                 "metadata.iceberg.rest.uri", "file-index.bitmap.m[k].version", "log.system", "orc.compress"):  # fmt: skip
        assert is_known(name), name


FACES: dict[str, Callable[[Table], object]] = {
    "created": lambda item: Catalog(str(Path(item.path).parents[1])).create_table(
        "db.u", schema=SCHEMA, options={"buckt": "2"}
    ),
    "created by a statement": lambda item: Catalog(str(Path(item.path).parents[1])).create_table(
        sql="CREATE TABLE db.u (k INT) WITH ('buckt' = '2')"
    ),
    "altered": lambda item: item.alter([SetOption("buckt", "2")]),
    "opened": lambda item: open_table(item.path, options={"buckt": "2"}),
    "opened in a catalog": lambda item: Catalog(str(Path(item.path).parents[1])).table("db.t", {"buckt": "2"}),
    "a job": lambda item: run(Job(TableRef(path=item.path), Verify(), "user", table_options={"buckt": "2"})),
}


@pytest.mark.parametrize("face", FACES)
def test_a_misspelt_option_is_reported_and_refused_in_strict_mode(
    table: Table, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    with pytest.warns(PaimonWarning, match=r"option 'buckt' is unknown, .*; did you mean 'bucket'\?"):
        FACES[face](table)
    if face == "altered":
        # An option that is stored already is not a mistake of this change.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table.alter([SetOption("owner", "me")])
        return

    monkeypatch.setenv(STRICT_VARIABLE, "true")
    with pytest.raises(InvalidArgumentError, match="did you mean 'bucket'"):
        FACES[face](table)


def test_unknown_names_are_refused_only_in_strict_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_names(["our-own-note", "bucket"])
    monkeypatch.setenv(STRICT_VARIABLE, "1")

    with pytest.raises(InvalidArgumentError, match=f"option 'our-own-note' is unknown \\({STRICT_VARIABLE} is on"):
        check_names(["our-own-note"])


@pytest.mark.parametrize("name", ["fields.v.nonsense", "metadata.iceberg.enabled", "file-index.x.c.size"])
def test_a_name_that_only_paimon_could_read_is_always_reported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.warns(PaimonWarning, match=f"option '{name}' is unknown, so it has no effect$"):
        check_names([name])
    monkeypatch.setenv(STRICT_VARIABLE, "true")
    with pytest.raises(InvalidArgumentError, match=f"option '{name}' is unknown \\("):
        check_names([name])


def test_names_of_file_formats_are_refused_in_strict_mode_if_nobody_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_names(["parquet.of-tomorrow"])
    monkeypatch.setenv(STRICT_VARIABLE, "true")

    with pytest.raises(InvalidArgumentError, match="option 'parquet.of-tomorrow' is unknown"):
        check_names(["parquet.of-tomorrow"])
