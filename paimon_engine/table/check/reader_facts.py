"""Which engines read a table right, by what it uses: facts that a test has found out by trying these engines.

`tests/interop/test_reader_facts.py` makes a table of each kind, lets every engine read it, and compares. What no fact
mentions, every engine is known to read right, or has not been tried with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final

from paimon_engine.lsm.sections import written_at_once
from paimon_engine.meta.blobs import blob_columns, is_blob_file
from paimon_engine.meta.files_beside import is_beside, of_data_files
from paimon_engine.meta.index_manifest import DELETION_VECTORS, IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import first_row_id, stored_columns, stores_row_ids, written_columns
from paimon_engine.meta.variants import holds_variant
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import VectorType

ENGINES: Final[Mapping[str, str]] = {
    "java-0.9": "Java Paimon 0.9.0",
    "java-1.4": "Java Paimon 1.4.2",
    "java-2.0": "Java Paimon 2.0.0",
    "pypaimon-2.1": "pypaimon 2.1.0",
    "pypaimon-rust-0.4": "pypaimon-rust 0.4.0",
}
RIGHT: Final = "right"
WRONG: Final = "wrong"
FAILS: Final = "fails"
"""Ways to read: all rows as they are; other rows, or fewer, without an error; an error."""

_REWRITE: Final = "then rewrite the files by a full compaction, or copy the rows to a new table"


@dataclass(frozen=True, slots=True)
class Used:
    """What a table uses: its options, and the live files of its latest snapshot, of each bucket together."""

    table: TableHandle
    buckets: Sequence[Sequence[DataFile]]
    index_files: Sequence[IndexFile]

    @property
    def files(self) -> Iterator[DataFile]:
        """The files of all buckets."""
        return chain.from_iterable(self.buckets)

    def has(self, option: str, value: str = "true") -> bool:
        """Whether an option has that value."""
        return self.table.options.raw.get(option, "").lower() == value

    @property
    def has_vectors(self) -> bool:
        """Whether there are deletion vectors."""
        return any(file.kind == DELETION_VECTORS for file in self.index_files)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a table uses, how the engines read it that do not read it right, and what to change for them."""

    what: str
    change: str
    holds: Callable[[Used], bool]
    outcomes: Mapping[str, str] = field(default_factory=dict)


def _fails(*engines: str) -> dict[str, str]:
    return dict.fromkeys(engines, FAILS)


def _wrong(*engines: str) -> dict[str, str]:
    return dict.fromkeys(engines, WRONG)


def _sparse_statistics(used: Used) -> bool:
    for file in used.files:
        listed = file.value_stats_columns
        if listed and len(listed) < len(used.table.schema_of(file.schema_id).row_type.names):
            return True
    return False


def _has_column_files(used: Used) -> bool:
    if not used.table.options.data_evolution_enabled:
        return False
    files = (file for file in used.files if not is_beside(file))
    schemas = ((file, of_data_files(used.table.schema_of(file.schema_id))) for file in files)
    return any(
        len(stored_columns(schema, file).row_type.names) < len(schema.row_type.names) for file, schema in schemas
    )


def _writes_blobs_again(used: Used) -> bool:
    """Whether a column of BLOB has two files with values of one row: the newer one may refer to the older."""
    spans = sorted(
        (written_columns(file) or (), first_row_id(file) or 0, file.row_count)
        for file in used.files
        if is_blob_file(file)
    )
    return any(one[0] == next_one[0] and next_one[1] < one[1] + one[2] for one, next_one in pairwise(spans))


def _may_have_equal_numbers(used: Used) -> bool:
    """Whether readers merge files of writers that worked side by side, and no column orders their rows."""
    options = used.table.options
    merges = bool(used.table.schema.primary_keys) and not options.hides_level_0 and not options.sequence_fields
    return merges and any(map(written_at_once, used.buckets))


def _has_function_option(used: Used) -> bool:
    raw = used.table.options.raw
    return used.table.options.merge_engine == "aggregation" and any(
        key.startswith("fields.") and key.endswith(".ignore-retract") for key in raw
    )


FACTS: Final[Mapping[str, Fact]] = {
    "sparse statistics": Fact(
        "statistics of some columns only (`metadata.stats-dense-store`, which Java 1.0 and newer switches on itself): "
        "a filter loses rows",
        f"set 'metadata.stats-dense-store' = 'false', {_REWRITE}",
        _sparse_statistics,
        _wrong("java-0.9"),
    ),
    "no statistics": Fact(
        "no statistics of any column, with `metadata.stats-dense-store`: a filter fails",
        f"set 'metadata.stats-dense-store' = 'false', {_REWRITE}",
        lambda used: any(file.value_stats_columns == () for file in used.files),
        _fails("java-0.9"),
    ),
    "descending sequence": Fact(
        "`sequence.field.sort-order` = `descending`: other rows win",
        "keep the newest value in a sequence field of ascending order",
        lambda used: used.has("sequence.field.sort-order", "descending"),
        _wrong("java-0.9"),
    ),
    "equal numbers": Fact(
        "files of jobs that wrote at the same time: where their rows of a key have equal sequence numbers, others win",
        "compact before reading, or order rows by a 'sequence.field'",
        _may_have_equal_numbers,
        _wrong("pypaimon-2.1", "pypaimon-rust-0.4"),
    ),
    "snapshot ordering": Fact(
        "`sequence.snapshot-ordering`: other rows win",
        "order rows by a 'sequence.field'",
        lambda used: used.has("sequence.snapshot-ordering"),
        _wrong("java-0.9", "java-1.4", "pypaimon-2.1", "pypaimon-rust-0.4"),
    ),
    "merge on read": Fact(
        "deletion vectors merged on read (`deletion-vectors.merge-on-read`): rows in level 0 are missing",
        "compact before reading",
        lambda used: used.table.options.merges_vectors_on_read and any(file.level == 0 for file in used.files),
        _wrong("java-0.9", "java-1.4"),
    ),
    "thin files": Fact(
        "`data-file.thin-mode`: files without key columns",
        f"set 'data-file.thin-mode' = 'false', {_REWRITE}",
        lambda used: any(used.table.schema_of(file.schema_id).table_options.thin_files for file in used.files),
        _fails("java-0.9"),
    ),
    "data directory": Fact(
        "`data-file.path-directory`: files in a directory of their own",
        "copy the rows to a table without the option",
        lambda used: bool(used.table.options.data_file_directory),
        _fails("java-0.9"),
    ),
    "wide deletion vectors": Fact(
        "deletion vectors of 64 bits (`deletion-vectors.bitmap64`)",
        "set 'deletion-vectors.bitmap64' = 'false', then compact fully, so that no vectors are left",
        lambda used: used.has("deletion-vectors.bitmap64") and used.has_vectors,
        _fails("java-0.9", "pypaimon-2.1"),
    ),
    "deletion vectors beside data": Fact(
        "deletion vectors beside the data files (`index-file-in-data-file-dir`)",
        "compact fully, so that no vectors are left, or copy the rows to a table without the option",
        lambda used: used.has("index-file-in-data-file-dir") and used.has_vectors,
        _fails("java-0.9"),
    ),
    "postponed buckets": Fact(
        "postponed buckets (`bucket` = `-2`)",
        "copy the rows to a table with a fixed number of buckets",
        lambda used: used.table.options.bucket == POSTPONED_BUCKET,
        _fails("java-0.9"),
    ),
    "range bitmap": Fact(
        "a range bitmap as file index (`file-index.range-bitmap.columns`): a filter fails",
        "remove the option, then rewrite the indexes of files (`rewrite_file_index`)",
        lambda used: "file-index.range-bitmap.columns" in used.table.options.raw,
        _fails("java-0.9"),
    ),
    "manifests in other formats": Fact(
        "manifests in ORC or Parquet (`manifest.format`)",
        "copy the rows to a table with manifests in Avro",
        lambda used: used.table.options.manifest_format != "avro",
        _fails("pypaimon-2.1", "pypaimon-rust-0.4"),
    ),
    "sequence groups": Fact(
        "sequence groups of a partial update (`fields.<column>.sequence-group`)",
        "read the table by another engine; without the groups its rows would be others",
        lambda used: any(key.endswith(".sequence-group") for key in used.table.options.raw),
        _fails("pypaimon-2.1"),
    ),
    "ignored retracts": Fact(
        "an aggregation with `fields.<column>.ignore-retract`",
        "remove the option if the rows have no deletes",
        _has_function_option,
        _fails("pypaimon-2.1"),
    ),
    "variants": Fact(
        "columns of VARIANT",
        "copy the rows to a table with JSON texts in place of them",
        lambda used: any(holds_variant(field.type) for field in used.table.schema.row_type),
        _fails("java-0.9"),
    ),
    "vectors": Fact(
        "columns of VECTOR",
        "copy the rows to a table with ARRAY in place of them",
        lambda used: any(isinstance(field.type, VectorType) for field in used.table.schema.row_type),
        _fails("java-0.9", "java-1.4"),
    ),
    "blobs": Fact(
        "columns of BLOB",
        "copy the rows to a table with BYTES in place of them",
        lambda used: bool(blob_columns(used.table.schema)),
        _fails("java-0.9"),
    ),
    "blobs, some written again": Fact(
        "columns of BLOB with values that were written again",
        "copy the rows to a new table",
        _writes_blobs_again,
        _fails("java-0.9", "java-1.4"),
    ),
    "chain table": Fact(
        "partitions that are in other branches (`chain-table.enabled`)",
        "copy the rows to a table without the option",
        lambda used: used.has("chain-table.enabled") and "scan.fallback-delta-branch" in used.table.options.raw,
        _wrong("java-0.9", "pypaimon-2.1", "pypaimon-rust-0.4"),
    ),
    "columns in several files": Fact(
        "columns of rows in several files (`data-evolution.enabled`)",
        "compact fully, so that each file has all columns, or copy the rows to a table without the option",
        _has_column_files,
        _fails("java-0.9"),
    ),
    "stored row ids": Fact(
        "`row-tracking.enabled`, after a compaction, whose files store ids of rows",
        "copy the rows to a table without the option",
        lambda used: any(stores_row_ids(file) for file in used.files),
        _fails("pypaimon-rust-0.4"),
    ),
}
"""Each by a name of its own."""
