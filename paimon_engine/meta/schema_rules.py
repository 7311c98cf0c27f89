"""What a table's columns, keys and options must not be: one set of rules for creation and for ALTER.

Requirements of merging are checked by the merge functions (`merge.functions`).

Source: `SchemaValidation`, `Schema` of the Java library; rules of later releases where 0.9 fails only when it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.blobs import check_blobs
from paimon_engine.meta.casts import STRING, cast, is_castable
from paimon_engine.meta.chain_rules import check_chain_table
from paimon_engine.meta.clustered_keys import check_clustered_keys
from paimon_engine.meta.option_rules import check_changed_settings, check_stats_mode
from paimon_engine.meta.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, BucketMode, TableSchema, schema_to_json
from paimon_engine.meta.snapshot_order import check_snapshot_ordering
from paimon_engine.meta.variants import check_variants, holds_variant
from paimon_engine.meta.vectors import check_vectors
from paimon_engine.options import POSTPONED_BUCKET, TableOptions
from paimon_engine.options.texts import split_list
from paimon_engine.types import (
    BINARY_ROOTS,
    MAX_LENGTH,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    type_to_json,
)

_NO_OPTIONS: Final[Mapping[str, str]] = {}
_SYSTEM_NAMES: Final = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID"})
_AVRO_DIGITS: Final = {TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6, TypeRoot.TIME: 3}
_FIELDS: Final = "fields."
_DEFAULT_FUNCTION: Final = "default-aggregate-function"
_LISTS_OF_NAMES: Final = frozenset(
    {
        "bucket-key",
        "sequence.field",
        "partial-update.remove-record-on-sequence-group",
        "changelog-producer.row-deduplicate-ignore-fields",
    }
)
_MAY_NAME_NOTHING: Final = frozenset({"bucket-key", "changelog-producer.row-deduplicate-ignore-fields"})
_LISTS_OF_COLUMNS: Final = (".sequence-group", ".nested-key", ".nested-sequence-field")


def check_schema(schema: TableSchema, before: Mapping[str, str] = _NO_OPTIONS) -> None:
    """Checks a schema that is about to be stored, in which options were those of `before`.

    What options mean for later work is looked at where they are new or changed: another engine may have stored others.

    Raises: InvalidArgumentError or UnsupportedError naming what breaks a rule, and what to do.
    """
    _check_texts(schema)
    schema.table_options.check()
    _check_stats_modes(schema.table_options, schema.row_type.names)
    _check_columns(schema.row_type)
    _check_keys(schema)
    _check_buckets(schema)
    _check_options_of_columns(schema)
    _check_lists(schema.options)
    _check_defaults(schema)
    _check_sequence_fields(schema)
    check_snapshot_ordering(schema)
    check_clustered_keys(schema)
    if schema.primary_keys:
        schema.table_options.levels_of_keys()
    _check_changelog(schema)
    _check_row_tracking(schema)
    check_chain_table(schema)
    check_vectors(schema)
    check_blobs(schema)
    _check_retention(schema.table_options)
    _check_special_columns(schema)
    check_changed_settings(schema, before)
    _check_scan_options(schema.table_options.raw)
    check_variants(schema)
    changelogs = (schema.table_options.changelog_file_format,) if schema.primary_keys else ()
    if "avro" in (*schema.table_options.file_formats, *changelogs):
        _check_avro_names(schema.row_type)
        for field in schema.row_type:
            _check_avro(field.type, field.name)


def _check_texts(schema: TableSchema) -> None:
    try:
        schema_to_json(schema).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{error.object[max(error.start - 40, 0) : error.end]!r} in the schema contains a lone surrogate"
        ) from error


def _names(schema: TableSchema) -> str:
    names = ", ".join(schema.row_type.names)
    return f"the columns are {names}; name one of them in the option, or remove the option"


def _check_row_tracking(schema: TableSchema) -> None:
    """Raises InvalidArgumentError if rows of the table cannot have ids, or not columns in several files."""
    options = schema.table_options
    if not options.row_tracking_enabled:
        if options.data_evolution_enabled:
            raise InvalidArgumentError("'data-evolution.enabled' = 'true' needs 'row-tracking.enabled' = 'true'")
        return
    if options.data_evolution_enabled and options.raw.get("clustering.incremental", "false").strip().lower() == "true":
        raise InvalidArgumentError(
            "'data-evolution.enabled' and 'clustering.incremental' exclude each other; leave one of them out"
        )
    if schema.primary_keys:
        raise InvalidArgumentError("'row-tracking.enabled' = 'true' is for tables without primary key; remove one")
    if options.bucket != -1:
        raise InvalidArgumentError("'row-tracking.enabled' = 'true' is for tables without buckets; set 'bucket' = '-1'")


# ── columns and keys ────────────────────────────────────────────────────────────────────────────


def _check_columns(columns: RowType) -> None:
    if not columns.names:
        raise InvalidArgumentError("a table needs at least one column")
    _check_names(columns, "column names")
    for name in columns.names:
        if name in _SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidArgumentError(f"column name {name!r} is reserved by the format; choose another")
    for field in columns:
        _check_type(field.type, field.name)


def _check_names(row_type: RowType, what: str) -> None:
    names = row_type.names
    if any(not name.strip() for name in names):
        raise InvalidArgumentError(f"{what} must not be blank: no release of Java could open the table")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError(f"{what} must differ; {', '.join(twice)} occurs more than once")


def _check_type(data_type: DataType, name: str) -> None:
    """Raises InvalidArgumentError for a length or precision that the format cannot store; looks into nested types."""
    match data_type:
        case ArrayType(element) | MultisetType(element):
            _check_type(element, name)
        case MapType(key, value):
            _check_type(key, name)
            _check_type(value, name)
        case VectorType():
            pass  # checked when it is parsed
        case RowType(fields):
            _check_names(data_type, f"column {name!r}: field names of a ROW")
            for field in fields:
                _check_type(field.type, f"{name}.{field.name}")
        case AtomicType(root):
            if root is TypeRoot.DECIMAL:
                fits = 1 <= data_type.precision <= 38 and data_type.scale <= data_type.precision
            elif root in STRING_ROOTS or root in BINARY_ROOTS:
                fits = 1 <= data_type.length <= MAX_LENGTH or root is TypeRoot.BLOB
            else:
                fits = data_type.precision <= 9
            if not fits:
                raise InvalidArgumentError(
                    f"column {name!r}: {type_to_json(data_type)} is out of bounds; DECIMAL has 1 to 38 digits and no "
                    f"more after the point, text and binary a length of 1 to {MAX_LENGTH}, times at most 9 digits"
                )


def _check_keys(schema: TableSchema) -> None:
    """Checks primary and partition keys: named once, not nested, and such that Java can find their rows."""
    columns = schema.row_type
    for role, keys in (("primary key", schema.primary_keys), ("partition key", schema.partition_keys)):
        if len(set(keys)) != len(keys):
            raise InvalidArgumentError(f"a {role} column is named twice in {list(keys)}")
        for key in keys:
            if not isinstance(columns.field(key).type, AtomicType):
                raise InvalidArgumentError(f"{role} column {key!r} must not have a nested type")
    if schema.table_options.nullable_keys and not schema.primary_keys:
        raise InvalidArgumentError("'primary-key.nullable' = 'true' is for tables with a primary key; remove it")
    for key in schema.partition_keys:
        data_type = columns.field(key).type
        if isinstance(data_type, AtomicType) and data_type.root in BINARY_ROOTS:
            raise UnsupportedError(
                f"partition key column {key!r} must not be binary: Java would put such partitions into directories "
                "that no one finds again; use a text, such as its hexadecimal form"
            )
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidArgumentError(
            f"primary key {list(schema.primary_keys)} has no column besides the partition keys; "
            "each partition would hold one row"
        )


def _crosses_partitions(schema: TableSchema) -> bool:
    return bool(schema.primary_keys) and not set(schema.partition_keys) <= set(schema.primary_keys)


def _check_buckets(schema: TableSchema) -> None:
    """Checks `bucket` and `bucket-key` against the table's keys: a row's bucket must follow from its key alone."""
    _check_bucket_mode(schema)
    options = schema.table_options
    bucket, keys = options.bucket, options.bucket_key
    if bucket > 0 and not schema.primary_keys and not keys:
        raise InvalidArgumentError(
            "an append table with a fixed number of buckets needs 'bucket-key'; or set 'bucket' = '-1'"
        )
    for name in keys:
        if not isinstance(schema.row_type.field(name).type, AtomicType):
            raise InvalidArgumentError(f"'bucket-key': column {name!r} must not have a nested type")
        if name in schema.partition_keys:
            raise InvalidArgumentError(f"'bucket-key' must name no partition key; {name!r} is one")
    if schema.primary_keys and not set(keys) <= set(schema.trimmed_primary_keys):
        raise InvalidArgumentError(
            f"'bucket-key' = {keys} must be columns of the primary key, none of them a partition key"
        )
    if bucket == -1 and not schema.primary_keys and "full-compaction.delta-commits" in options.raw:
        raise InvalidArgumentError(
            "'full-compaction.delta-commits' needs a primary key or a fixed number of buckets; leave it out"
        )


def _check_bucket_mode(schema: TableSchema) -> None:
    """Raises InvalidArgumentError where number of buckets, keys and partition keys contradict each other."""
    options, mode = schema.table_options, schema.bucket_mode
    if options.bucket == 0 or options.bucket < POSTPONED_BUCKET:
        raise InvalidArgumentError(f"'bucket' = '{options.bucket}'; use a positive number, or -1")
    if options.bucket == POSTPONED_BUCKET and not schema.primary_keys:
        raise InvalidArgumentError("'bucket' = '-2' is for tables with a primary key; use a positive number, or -1")
    if options.bucket == -1 and options.bucket_key:
        raise InvalidArgumentError(
            "'bucket-key' requires a fixed number of buckets; remove it, or set 'bucket' to a positive number"
        )
    lacks_partition_key = bool(schema.primary_keys) and not set(schema.partition_keys) <= set(schema.primary_keys)
    if lacks_partition_key and mode is not BucketMode.CROSS_PARTITION:
        raise InvalidArgumentError(
            f"primary key {list(schema.primary_keys)} must contain all partition keys {list(schema.partition_keys)} "
            "when 'bucket' is a fixed number or -2; use 'bucket' = '-1' for keys that are unique over all partitions"
        )
    if mode is BucketMode.CROSS_PARTITION and options.sequence_fields:
        raise InvalidArgumentError(
            f"'sequence.field' needs a primary key that contains all partition keys {list(schema.partition_keys)}: "
            f"{list(schema.primary_keys)} does not, so that its rows move between partitions in their order of arrival"
        )
    for count, key in (
        (options.dynamic_bucket_target_row_num, "dynamic-bucket.target-row-num"),
        (options.dynamic_bucket_initial_buckets, "dynamic-bucket.initial-buckets"),
        (options.postpone_default_bucket_num, "postpone.default-bucket-num"),
    ):
        if count is not None and count < 1:
            raise InvalidArgumentError(f"'{key}' = '{count}'; use a positive number")
    _ = options.dynamic_bucket_max_buckets


# ── options that name columns ───────────────────────────────────────────────────────────────────


def _check_options_of_columns(schema: TableSchema) -> None:
    for key in schema.options:
        if key.startswith(_FIELDS.removesuffix(".")) and "." not in key:
            raise InvalidArgumentError(
                f"'{key}' is not an option: Java takes it for one of a column; write 'fields.<column>.<option>'"
            )
        if key.startswith(_FIELDS):
            for name in key[len(_FIELDS) :].split(".")[0].split(","):
                if name != _DEFAULT_FUNCTION and name not in schema.row_type:
                    raise InvalidArgumentError(f"'{key}': no column {name!r}; {_names(schema)}")


def _named_column(schema: TableSchema, option: str, name: str) -> DataField:
    if name not in schema.row_type:
        raise InvalidArgumentError(f"'{option}' = '{schema.options[option]}': no column {name!r}; {_names(schema)}")
    return schema.row_type.field(name)


def _check_lists(options: Mapping[str, str]) -> None:
    """The Java library takes a blank next to a comma as part of the name, and finds no column of that name."""
    for key, text in options.items():
        if key not in _LISTS_OF_NAMES and not (key.startswith(_FIELDS) and key.endswith(_LISTS_OF_COLUMNS)):
            continue
        if key in _MAY_NAME_NOTHING and not text.strip(", "):
            continue
        names = text.rstrip(",").split(",")
        if any(name != name.strip() or not name for name in names):
            plain = ",".join(split_list(text))
            remedy = f"write '{plain}'" if plain else "name a column, or leave the option out"
            raise InvalidArgumentError(f"'{key}' = '{text}' has a blank or an empty name in it; {remedy}")
        if key.endswith("nested-key") and len({*names}) < len(names):
            raise InvalidArgumentError(f"'{key}' = '{text}' names a field twice; name each once")


def _check_defaults(schema: TableSchema) -> None:
    texts = {
        name: (f"'fields.{name}.default-value'", text) for name, text in schema.table_options.default_values.items()
    }
    for field in schema.row_type:
        if field.default_value is not None:
            check_default(field.type, field.default_value, f"the default value of column {field.name!r}")
        if field.name not in texts:
            continue
        key, text = texts[field.name]
        if field.name in (*schema.partition_keys, *schema.primary_keys):
            raise InvalidArgumentError(f"{key}: a column of the primary key or partition keys takes no default value")
        check_default(field.type, text, key)


def check_default(data_type: DataType, text: str, what: str) -> None:
    """Raises InvalidArgumentError if the text is not a value of the type, UnsupportedError for types without text."""
    if not is_castable(STRING, data_type):
        raise UnsupportedError(f"{what} = {text!r}: default values of nested columns are not supported")
    try:
        cast(pa.array([text]), STRING, data_type)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{what} = {text!r} does not fit the column's type {type_to_json(data_type)}"
        ) from error


def _check_sequence_fields(schema: TableSchema) -> None:
    """Raises InvalidArgumentError for columns that cannot order the versions of a key."""
    options = schema.table_options
    names = options.sequence_fields
    is_grouped = options.merge_engine == "partial-update"
    groups = [name for ordering, _ in options.sequence_groups for name in ordering] if is_grouped else []
    for name in (*names, *groups) if schema.primary_keys else ():
        kind = schema.row_type.field(name).type if name in schema.row_type else None
        if kind is not None and (_holds_map(kind) or holds_variant(kind) or isinstance(kind, VectorType)):
            raise InvalidArgumentError(
                f"column {name!r} has no order, since maps, variants and vectors have none, so it does not say which "
                "version of a key is newer; name another one in 'sequence.field' or 'fields.<column>.sequence-group'"
            )
    for name in names:
        _named_column(schema, "sequence.field", name)
        if names.count(name) > 1:
            raise InvalidArgumentError(f"'sequence.field' names column {name!r} twice")
        if name in options.aggregate_functions:
            raise InvalidArgumentError(
                f"column {name!r} orders versions ('sequence.field'), so it takes no 'fields.{name}.aggregate-function'"
            )
    if names and _crosses_partitions(schema):
        raise InvalidArgumentError(
            f"'sequence.field' needs a primary key that contains all partition keys; {list(schema.primary_keys)} lacks "
            f"some of {list(schema.partition_keys)}"
        )


def _holds_map(data_type: DataType) -> bool:
    match data_type:
        case MapType() | MultisetType():
            return True
        case ArrayType(element):
            return _holds_map(element)
        case RowType(fields):
            return any(_holds_map(field.type) for field in fields)
        case _:
            return False


def _check_special_columns(schema: TableSchema) -> None:
    """Raises InvalidArgumentError for a column of row kinds or record times that is missing or of a wrong type."""
    options = schema.table_options
    if options.rowkind_field is not None:
        kind = _named_column(schema, "rowkind.field", options.rowkind_field).type
        if not (isinstance(kind, AtomicType) and kind.root in STRING_ROOTS):
            raise InvalidArgumentError(f"'rowkind.field': column {options.rowkind_field!r} must be STRING")
    time_field = options.raw.get("record-level.time-field")
    if time_field is not None:
        kind = _named_column(schema, "record-level.time-field", time_field).type
        if not (isinstance(kind, AtomicType) and kind.root in (TypeRoot.INT, TypeRoot.BIGINT, *TIMESTAMP_ROOTS)):
            raise InvalidArgumentError(
                f"'record-level.time-field': column {time_field!r} must be INT, BIGINT or a timestamp"
            )


# ── other options ───────────────────────────────────────────────────────────────────────────────


def _check_changelog(schema: TableSchema) -> None:
    """Checks that the table can have the changelog of its options.

    Raises: InvalidArgumentError without a primary key, if changes would be read twice, or if it is made by full
    compactions and the table has deletion vectors.
    """
    options = schema.table_options
    producer = options.changelog_producer
    if producer != "none" and not schema.primary_keys:
        raise InvalidArgumentError(f"'changelog-producer' = '{producer}' needs a primary key; leave it out")
    if options.raw.get("streaming-read-overwrite", "false").strip().lower() == "true":
        if not schema.primary_keys:
            raise InvalidArgumentError("'streaming-read-overwrite' = 'true' needs a primary key")
        if producer in ("lookup", "full-compaction"):
            raise InvalidArgumentError(
                f"'streaming-read-overwrite' = 'true' would read changes twice with 'changelog-producer' = '{producer}'"
            )
    if options.deletion_vectors_enabled and producer == "full-compaction":
        raise InvalidArgumentError(
            "'deletion-vectors.enabled' = 'true' requires 'changelog-producer' = 'none', 'input' or "
            "'lookup', not with 'full-compaction'"
        )


def _check_retention(options: TableOptions) -> None:
    """Raises InvalidArgumentError if more snapshots, or changelogs, must be kept than may be.

    Limits of changelogs that are not given are those of snapshots.
    """
    least = options.snapshot_num_retained_min
    most = options.snapshot_num_retained_max
    limits = [("snapshot", least, most)]
    changelog = [options.raw.get(f"changelog.num-retained.{end}") for end in ("min", "max")]
    try:
        numbers = [None if text is None else int(text) for text in changelog]
    except ValueError as error:
        raise InvalidArgumentError(f"'changelog.num-retained.*' = {changelog} are not integers") from error
    limits.append(
        ("changelog", least if numbers[0] is None else numbers[0], most if numbers[1] is None else numbers[1])
    )
    for kind, low, high in limits:
        if low < 1:
            raise InvalidArgumentError(f"'{kind}.num-retained.min' = '{low}'; keep at least 1")
        if high is not None and low > high:
            raise InvalidArgumentError(f"'{kind}.num-retained.min' = '{low}' is more than the maximum of {high}")


def _check_stats_modes(options: TableOptions, columns: Sequence[str]) -> None:
    """Raises InvalidArgumentError naming an option whose mode does not exist."""
    modes = [("metadata.stats-mode", options.stats_mode), ("changelog-file.stats-mode", options.changelog_stats_mode)]
    modes += [(f"fields.{name}.stats-mode", options.stats_mode_of(name)) for name in columns]
    for key, mode in modes:
        if mode is not None:
            check_stats_mode(key, mode)


_SCAN_KEYS: Final = {
    "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark"),
    "incremental": ("incremental-between", "incremental-between-timestamp"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-file-creation-time": ("scan.file-creation-time-millis",),
}
"""Ways to begin a scan, and the options of which each takes exactly one."""


def _check_scan_options(options: Mapping[str, str]) -> None:
    given = {key for keys in _SCAN_KEYS.values() for key in keys} & options.keys()
    mode = options.get("scan.mode", "default").strip().lower()
    if mode == "default":
        mode = next((name for name, keys in _SCAN_KEYS.items() if given & set(keys)), "latest-full")
    wanted: Sequence[str] = _SCAN_KEYS.get(mode, ())
    if wanted and len(given & set(wanted)) != 1:
        raise InvalidArgumentError(f"'scan.mode' = '{mode}' takes exactly one of {', '.join(wanted)}")
    if others := sorted(given - set(wanted)):
        raise InvalidArgumentError(
            f"'{others[0]}' does not go together with 'scan.mode' = '{mode}'; remove one of them"
        )


def _check_avro(data_type: DataType, name: str) -> None:
    """Raises UnsupportedError if the column `name`, or a part of it, has more digits of the second than Avro has."""
    match data_type:
        case ArrayType(element) | MultisetType(element):
            _check_avro(element, name)
        case MapType(key, value):
            _check_avro(key, name)
            _check_avro(value, name)
        case RowType(fields):
            _check_avro_names(data_type)
            for field in fields:
                _check_avro(field.type, f"{name}.{field.name}")
        case AtomicType(root, precision=precision):
            if precision > _AVRO_DIGITS.get(root, precision):
                raise UnsupportedError(
                    f"column {name!r}: Avro cannot store {type_to_json(data_type)}; use 'file.format' = 'parquet', or "
                    f"at most {_AVRO_DIGITS[root]} digits of the second"
                )


def _check_avro_names(row_type: RowType) -> None:
    """Raises UnsupportedError for a name that Java's Avro refuses, so that it neither reads nor writes the files."""
    for name in row_type.names:
        # UTF-16 units are looked at there, so letters beyond 16 bits are none.
        is_known = all((char.isalpha() or char.isdecimal() or char == "_") and ord(char) < 1 << 16 for char in name)
        if not is_known or name[0].isdecimal():
            raise UnsupportedError(
                f"column name {name!r}: Avro files of other engines have names of letters, digits and _ only, which do "
                "not begin with a digit; use 'file.format' = 'parquet', or another name"
            )
