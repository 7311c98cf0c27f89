"""Names of options in families: of file formats, of Iceberg's metadata, of file indexes, and of single columns.

Source: `IcebergOptions`, `RowDataParquetBuilder` and the indexes of the Java library, `OrcConf` of ORC,
`ParquetOutputFormat` and `ParquetInputFormat` of Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from paimon_engine.options.iceberg import REST_PREFIX

_OF_FORMATS: Final = """
avro.codec avro.row-name-mapping
orc.base.delta.ratio orc.block.padding orc.block.padding.tolerance orc.block.size orc.bloom.filter.columns
orc.bloom.filter.fpp orc.bloom.filter.ignore.non-utf8 orc.bloom.filter.write.version orc.buffer.size.enforce
orc.column.encoding.direct orc.compress orc.compress.size orc.compression.strategy orc.compression.zstd.level
orc.compression.zstd.strategy orc.compression.zstd.windowlog orc.create.index orc.default.bloom.fpp
orc.dictionary.early.check orc.dictionary.implementation orc.dictionary.key.threshold orc.dictionary.max.size.bytes
orc.encoding.strategy orc.encrypt orc.filter.plugin orc.filter.plugin.allowlist orc.filter.use.selected
orc.force.positional.evolution orc.force.positional.evolution.level orc.include.columns orc.key.provider orc.kryo.sarg
orc.kryo.sarg.buffer orc.mapred.input.schema orc.mapred.map.output.key.schema orc.mapred.map.output.value.schema
orc.mapred.output.schema orc.mask orc.max.disk.range.chunk.limit orc.max.file.length orc.memory.pool
orc.min.disk.seek.size orc.min.disk.seek.size.tolerance orc.overwrite.output.file orc.proleptic.gregorian
orc.proleptic.gregorian.default orc.row.batch.size orc.row.child.limit orc.row.index.stride
orc.rows.between.memory.checks orc.sarg.column.names orc.sarg.to.filter orc.schema.evolution.case.sensitive
orc.skip.corrupt.data orc.stripe.row.count orc.stripe.size orc.stripe.size.check.ratio orc.timestamp-ltz.legacy.type
orc.tolerate.missing.schema orc.use.zerocopy orc.write.batch-size orc.write.format orc.write.variable.length.blocks
parquet.block.row.count.limit parquet.block.size parquet.bloom.filter.adaptive.enabled
parquet.bloom.filter.candidates.number parquet.bloom.filter.enabled parquet.bloom.filter.expected.ndv
parquet.bloom.filter.fpp parquet.bloom.filter.max.bytes parquet.column.statistics.enabled
parquet.columnindex.truncate.length parquet.compression parquet.compression.codec.zstd.bufferPool.enabled
parquet.compression.codec.zstd.level parquet.compression.codec.zstd.workers parquet.decrypt.off-heap.buffer.enabled
parquet.dictionary.page.size parquet.enable.dictionary parquet.enable.summary-metadata parquet.filter.bloom.enabled
parquet.filter.columnindex.enabled parquet.filter.dictionary.enabled parquet.filter.record-level.enabled
parquet.filter.stats.enabled parquet.hadoop.vectored.io.enabled parquet.memory.min.chunk.size
parquet.memory.pool.ratio parquet.page.row.count.limit parquet.page.size parquet.page.size.check.estimate
parquet.page.size.row.check.max parquet.page.size.row.check.min parquet.page.value.count.threshold
parquet.page.verify-checksum.enabled parquet.page.write-checksum.enabled parquet.read.allocation.size
parquet.read.bad.record.threshold parquet.read.filter parquet.read.support.class parquet.size.statistics.enabled
parquet.split.files parquet.statistics.truncate.length parquet.strict.typing parquet.strings.signed-min-max.enabled
parquet.summary.metadata.level parquet.task.side.metadata parquet.use-native parquet.validation
parquet.variant.shreddingSchema parquet.write.support.class parquet.writer.max-padding parquet.writer.version
"""
_OF_ICEBERG: Final = """
metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num metadata.iceberg.database
metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version metadata.iceberg.glue.skip-archive
metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class metadata.iceberg.hive-conf-dir
metadata.iceberg.hive-skip-update-stats metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
metadata.iceberg.previous-versions-max metadata.iceberg.storage metadata.iceberg.storage-location
metadata.iceberg.table metadata.iceberg.uri
"""
_NAMES: Final = frozenset((_OF_FORMATS + _OF_ICEBERG).split())
_OF_COLUMNS: Final = (
    "aggregate-function",
    "count-limit",
    "default-value",
    "distinct",
    "ignore-retract",
    "list-agg-delimiter",
    "map.shared-shredding.column-placement-policy",
    "map.shared-shredding.max-columns",
    "map.storage-layout",
    "nested-key",
    "nested-key-null-strategy",
    "nested-sequence-field",
    "sequence-group",
    "stats-mode",
    "ts-field",
)
"""What may follow the names of columns in `fields.<columns>.`."""
_OF_INDEXES: Final[Mapping[str, tuple[str, ...]]] = {
    "bloom-filter": ("fpp", "items"),
    "bitmap": ("index-block-size", "version"),
    "bsi": (),
    "range-bitmap": ("chunk-size",),
}
"""Options of an index of a column, `file-index.<index>.<column>.<option>`, by index."""

_FIELDS: Final = "fields."
_INDEX: Final = "file-index."
_COLUMNS: Final = "columns"
_LIKENESS_MIN: Final = 0.6
"""Where a name can mean nothing else; `aggregation` is 0.76 like `aggregate-function`."""
_LIKENESS_OF_FORMATS_MIN: Final = 0.8
OF_PAIMON: Final = (_FIELDS, _INDEX, "metadata.iceberg.")
"""Beginnings of names that nobody but Paimon reads: others below them are mistakes."""

_FAMILIES: Final = (*OF_PAIMON, "avro.", "orc.", "parquet.")


def is_of_family(name: str) -> bool:
    """Whether the name begins as those of a family, known or not."""
    return name.startswith(_FAMILIES)


def is_known_in_family(name: str) -> bool:
    """Whether a release knows the option; names of Parquet may end with a column, as in `parquet.compression#v`."""
    if name in _NAMES or name.startswith(REST_PREFIX):
        return True
    if name.startswith(_FIELDS):
        return name.endswith(tuple(f".{one}" for one in _OF_COLUMNS))
    if name.startswith(_INDEX):
        kind, column, last = _index_parts(name)
        if column:
            return kind in _OF_INDEXES and last in _OF_INDEXES[kind]
        # An index that no release knows today is refused by name where it would be made.
        is_kind = kind in _OF_INDEXES or (kind != "" and _near(kind, _OF_INDEXES) is None)
        return is_kind and last == _COLUMNS
    return name.startswith("parquet.") and name.partition("#")[0] in _NAMES


def nearest_in_family(name: str) -> str | None:
    """The name of the family that is most like it; None if none is similar."""
    if name.startswith(_FIELDS):
        column, _, last = name[len(_FIELDS) :].partition(".")
        near = _near(last, _OF_COLUMNS)
        return None if near is None else f"{_FIELDS}{column}.{near}"
    if name.startswith(_INDEX):
        kind, column, last = _index_parts(name)
        near_kind = _near(kind, _OF_INDEXES)
        near = _near(last, _OF_INDEXES.get(near_kind or "", ()) if column else (_COLUMNS,))
        found_all = near_kind is not None and near is not None
        return ".".join(part for part in (f"{_INDEX}{near_kind}", column, near) if part) if found_all else None
    family = next(begin for begin in _FAMILIES if name.startswith(begin))
    # What they begin with would make all of them alike.
    rests = sorted(known.removeprefix(family) for known in _NAMES if known.startswith(family))
    plain, sharp, column_name = name.removeprefix(family).partition("#")
    found = get_close_matches(plain, rests, 1, _LIKENESS_OF_FORMATS_MIN)
    return f"{family}{found[0]}{sharp}{column_name}" if found else None


def _index_parts(name: str) -> tuple[str, str, str]:
    """Index, column (empty in the list of columns) and option of `file-index.<index>.<column>.<option>`."""
    kind, _, rest = name.removeprefix(_INDEX).partition(".")
    column, _, last = rest.rpartition(".")
    return kind, column, last


def _near(name: str, names: Iterable[str]) -> str | None:
    found = get_close_matches(name.lower().replace("_", "-"), list(names), 1, _LIKENESS_MIN)
    return found[0] if found else None
