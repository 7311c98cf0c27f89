"""What this engine does with each feature of Java Paimon 2.0, found out by trying it: `docs/_reference/features.json`.

For each feature Java makes a table with rows. Then this engine reads it, writes to it and compacts it, and Java reads the
result. `tests/interop/test_feature_table.py` compares the outcomes with the file, from which the documentation is made;
`python -m tests.interop.feature_table` writes the file again.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_engine import PaimonError, Table, UnsupportedError, open_table
from tests.support.chain_tables import make_chain
from tests.support.oracle import JavaPaimon
from tests.support.paimon2 import start_paimon2

FILE = Path(__file__).parents[2] / "docs" / "_reference" / "features.json"
DONE, REFUSED = "yes", "refused"
OUTSIDE = "{outside}"
"""In an option, a directory beside the table."""

KEY: tuple[tuple[str, str], ...] = (("id", "BIGINT NOT NULL"), ("v", "BIGINT"))
LINES: tuple[tuple[str, str], ...] = (("id", "BIGINT"), ("v", "BIGINT"))


@dataclass(frozen=True)
class Feature:
    """A kind of table; without `keys` an append table. `columns` are those after `id` and `v`, with a value of each."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ("id",)
    columns: tuple[tuple[str, str, Any], ...] = ()
    bucket: str = "1"
    partition_keys: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    """Of a chain table, the branch of each write."""


def _append(name: str, bucket: str = "-1", **options: str) -> Feature:
    return Feature(name, options, keys=(), bucket=bucket)


FEATURES: tuple[Feature, ...] = (
    Feature("primary key, fixed buckets"),
    Feature("primary key, dynamic buckets", bucket="-1"),
    Feature("primary key, postponed buckets", bucket="-2"),
    _append("append, no buckets"),
    Feature("append, fixed buckets", {"bucket-key": "id"}, keys=()),
    Feature("partitions", keys=("id", "v"), partition_keys=("v",)),
    *(
        Feature(f"`merge-engine` = `{engine}`", {"merge-engine": engine})
        for engine in ("partial-update", "aggregation", "first-row")
    ),
    *(
        Feature(f"`changelog-producer` = `{producer}`", {"changelog-producer": producer})
        for producer in ("input", "lookup", "full-compaction")
    ),
    Feature("`deletion-vectors.enabled`, primary key", {"deletion-vectors.enabled": "true"}),
    Feature("`deletion-vectors.enabled`, append", {"deletion-vectors.enabled": "true"}, keys=(), bucket="-1"),
    Feature("`deletion-vectors.bitmap64`", {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}),
    Feature(
        "`deletion-vectors.merge-on-read`",
        {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    ),
    *(Feature(f"`file.format` = `{name}`", {"file.format": name}) for name in ("orc", "avro")),
    *(Feature(f"`manifest.format` = `{name}`", {"manifest.format": name}) for name in ("orc", "parquet")),
    Feature("`file.suffix.include.compression`", {"file.suffix.include.compression": "true"}),
    Feature("`data-file.thin-mode`", {"data-file.thin-mode": "true"}),
    Feature("`data-file.path-directory`", {"data-file.path-directory": "data"}),
    Feature(
        "`index-file-in-data-file-dir`", {"index-file-in-data-file-dir": "true", "deletion-vectors.enabled": "true"}
    ),
    Feature("`metadata.stats-dense-store`", {"metadata.stats-dense-store": "true"}),
    Feature("`sequence.field`", {"sequence.field": "v"}),
    Feature("`sequence.snapshot-ordering`", {"sequence.snapshot-ordering": "true", "write-only": "true"}),
    Feature(
        "`pk-clustering-override`",
        {"pk-clustering-override": "true", "clustering.columns": "v", "deletion-vectors.enabled": "true"},
    ),
    Feature("`file-index.bloom-filter.columns`", {"file-index.bloom-filter.columns": "v"}),
    Feature("`pk-btree.index.columns`", {"pk-btree.index.columns": "v", "deletion-vectors.enabled": "true"}),
    Feature("`pk-bitmap.index.columns`", {"pk-bitmap.index.columns": "v", "deletion-vectors.enabled": "true"}),
    _append("`row-tracking.enabled`", **{"row-tracking.enabled": "true"}),
    _append("`data-evolution.enabled`", **{"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
    _append("`clustering.incremental`", **{"clustering.incremental": "true", "clustering.columns": "v"}),
    Feature("column of ARRAY", columns=(("a", "ARRAY<INT>", [1, 2]),)),
    Feature("column of VARIANT", columns=(("a", "VARIANT", '{"x":[1,null]}'),)),
    Feature(
        "column of VARIANT, shredded",
        {"variant.inferShreddingSchema": "true"},
        columns=(("a", "VARIANT", '{"x":1,"y":"z"}'),),
    ),
    Feature("column of VECTOR", columns=(("a", "VECTOR<FLOAT, 2>", [1, 2.5]),)),
    Feature(
        "column of VECTOR, `vector.file.format`",
        {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "vector.file.format": "parquet"},
        keys=(),
        columns=(("a", "VECTOR<FLOAT, 2>", [1, 2.5]),),
        bucket="-1",
    ),
    Feature(
        "column of BLOB",
        {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
        keys=(),
        columns=(("a", "BLOB", "0x0102"),),
        bucket="-1",
    ),
    Feature(
        "column of BLOB, `blob-as-descriptor`",
        {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-as-descriptor": "true"},
        keys=(),
        columns=(("a", "BLOB", "0x0102"),),
        bucket="-1",
    ),
    Feature(
        "chain table (`chain-table.enabled`)",
        {
            "chain-table.enabled": "true",
            "sequence.field": "s",
            "bucket-key": "id",
            "partition.timestamp-pattern": "2025010$v",
            "partition.timestamp-formatter": "yyyyMMdd",
        },
        keys=("id", "v"),
        columns=(("s", "BIGINT", 1),),
        partition_keys=("v",),
        chain=("snapshot", "delta", "delta"),
    ),
    Feature(
        "files outside the table (`data-file.external-paths`)",
        {"data-file.external-paths": f"file://{OUTSIDE}", "data-file.external-paths.strategy": "entropy-inject"},
    ),
    Feature("Iceberg metadata beside the table", {"metadata.iceberg.storage": "table-location"}),
)


@dataclass(frozen=True)
class Outcome:
    """`read` and `maintained` are `yes`, or `refused` and the option or type that the error names."""

    name: str
    read: str
    maintained: str


def outcome_of(feature: Feature, java: JavaPaimon, folder: Path) -> Outcome:
    """Tries the feature. Raises: AssertionError if rows are wrong, or if a refusal names nothing."""
    path = str(folder / re.sub(r"\W+", "-", feature.name))
    outside = f"{path}-outside"
    options = {key: value.replace(OUTSIDE, outside) for key, value in feature.options.items()}
    columns = [*(LINES if not feature.keys else KEY), *((name, kind) for name, kind, _ in feature.columns)]
    if feature.partition_keys:
        columns = [(name, kind if "NOT NULL" in kind else f"{kind} NOT NULL") for name, kind in columns]
    java.call(
        "create_table",
        table=path,
        fields=[list(column) for column in columns],
        primary_keys=list(feature.keys),
        partition_keys=list(feature.partition_keys),
        options={"bucket": feature.bucket, "file.format": "parquet", **options},
    )
    more = [value for *_, value in feature.columns]
    if feature.chain:
        make_chain(java, path)
    for number, branch in enumerate(feature.chain or ("main",) * 3):
        java.call("write", table=path, branch=branch, rows=[[key, 1 + number % 2, *more] for key in (number, 10)])
    allowed = {"external-paths.allowed": outside}
    try:
        table = open_table(path, storage_options=allowed)
        read = _without_variants(rows_of(table))
    except UnsupportedError as error:
        refusal = _named(error, feature)
        return Outcome(feature.name, refusal, refusal)
    assert read == _without_variants(_by_java(java, path)), feature.name
    return Outcome(feature.name, DONE, _maintained(feature, table, java, allowed))


def _maintained(feature: Feature, table: Table, java: JavaPaimon, allowed: Mapping[str, str]) -> str:
    """Writes a row and compacts; Java must read the same rows, and find no fault."""
    path = table.path
    before = _by_java(java, path)
    # Changes of a chain table are written to a branch.
    target = open_table(f"{path}$branch_{feature.chain[-1]}") if feature.chain else table
    try:
        target.write(target.to_arrow().slice(0, 1))
        target.compact(full=True)
    except UnsupportedError as error:
        return _named(error, feature)
    now = open_table(path, storage_options=allowed)
    after = _by_java(java, path)
    assert _without_variants(rows_of(now)) == _without_variants(after), feature.name
    # A row that was there already has been written; only Java shows what variants are. Postponed rows come to light.
    assert set(after) >= set(before) or feature.options.get("merge-engine") == "aggregation", feature.name
    assert java.problems(path) == [], feature.name
    assert now.verify().status == "sound", feature.name
    return DONE


def rows_of(table: Table) -> list[str]:
    """Rows in an order of their own, as texts."""
    return sorted(json.dumps(_plain(list(row.values()))) for row in table.to_arrow().to_pylist())


def _by_java(java: JavaPaimon, path: str) -> list[str]:
    return sorted(json.dumps(_plain(row)) for row in java.read(path))


def _without_variants(rows: Sequence[str]) -> list[str]:
    """The rows as texts, without VARIANTs: their binary form here, JSON texts from Java."""
    return sorted(re.sub(r'"\{.*\}"', "…", row) for row in rows)


def _plain(row: Sequence[Any]) -> list[Any]:
    """Values as JSON has them; bytes as Java's answers have them."""
    plain = ["0x" + value.hex() if isinstance(value, bytes) else value for value in row]
    return [value if isinstance(value, int | list | type(None)) else str(value) for value in plain]


def _named(error: UnsupportedError, feature: Feature) -> str:
    """The refusal, with the option or type that it names."""
    text = str(error)
    named = [key for key in feature.options if f"'{key}'" in text]
    named += [kind for _, kind, _ in feature.columns if kind.split("<")[0] in text]
    assert named, f"{feature.name}: the refusal names nothing that the table has: {text}"
    return f"{REFUSED}: `{named[0]}`"


def outcomes(java: JavaPaimon, folder: Path) -> list[Outcome]:
    """Of all features, in order."""
    return [outcome_of(feature, java, folder) for feature in FEATURES]


def as_text(found: Sequence[Outcome]) -> str:
    """The content of the file."""
    return json.dumps([vars_of(one) for one in found], indent=1, ensure_ascii=False) + "\n"


def vars_of(one: Outcome) -> dict[str, str]:
    return {"name": one.name, "read": one.read, "maintained": one.maintained}


def main() -> None:
    """Writes the file."""
    with tempfile.TemporaryDirectory(prefix="paimon-features-") as name:
        folder = Path(name)
        for java in start_paimon2(folder / "java.log"):
            found = []
            for feature in FEATURES:
                try:
                    found.append(outcome_of(feature, java, folder))
                except (AssertionError, RuntimeError, PaimonError, pa.ArrowInvalid) as error:
                    print(f"{feature.name}: {type(error).__name__}: {str(error)[:400]}")
            FILE.write_text(as_text(found), encoding="utf-8")


if __name__ == "__main__":
    main()
