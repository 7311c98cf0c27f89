"""Commands that only read: read, tables, snapshots, tags, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    JsonOption,
    Output,
    StorageOption,
    TableArgument,
    WarehouseOption,
    bounds,
    epoch_ms,
    key_values,
    open_catalog,
    open_named,
    storage_options,
)
from paimon_engine.cli.terminal import count, hint, print_grid, print_json, print_rows, warn
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError
from paimon_engine.units import size_text as size

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_engine.catalog import Catalog

SCREEN_ROWS: Final = 20


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command(
        epilog=example
        + "`paimon-engine read db.t -w /lake --where \"day = DATE '2013-01-01'\" --columns carrier,delay`\n\n"
        + "`paimon-engine read /lake/db.db/t --tag 2013-01-01 --output csv > t.csv`\n\n"
        + "`paimon-engine read 'db.t$audit_log' -w /lake --incremental 2013-01-01..2013-01-02`"
    )(read)
    app.command(epilog=example + "`paimon-engine tables /lake`")(tables)
    app.command(epilog=example + "`paimon-engine doctor s3://lake --storage s3.region=eu-central-1`")(doctor)
    app.command(epilog=example + "`paimon-engine snapshots db.t -w /lake`")(snapshots)
    app.command(epilog=example + "`paimon-engine tags /lake/db.db/t --json`")(tags)
    app.command(epilog=example + "`paimon-engine files /lake/db.db/t --tag 2013-01-01`")(files)


def read(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    columns: Annotated[str | None, typer.Option("--columns", "-c", help="Columns, separated by commas.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="SQL condition: delay > 15 AND carrier IN ('UA', 'DL')")
    ] = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="As of this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="As of this tag.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="As of this time: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    branch: Annotated[str | None, typer.Option(metavar="NAME", help="Of this branch.")] = None,
    incremental: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="What changed from one snapshot or tag to another.")
    ] = None,
    row_kinds: Annotated[bool, typer.Option("--row-kinds", help="Row kinds as a first column.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Table option for this read; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=0, help=f"So many rows; on screen {SCREEN_ROWS}.")
    ] = None,
    output: Annotated[
        Output | None,
        typer.Option("--output", "-o", help="On screen, or as text; json is one object a line. Else by --to."),
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file; needed for parquet.")] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Put ' before texts in CSV that a spreadsheet would run: those that begin with = + - @. Without it "
            "texts are written as they are.",
        ),
    ] = False,
) -> None:
    """Read rows, merged: of now, or as of a snapshot, tag or time; or what changed.

    TABLE may name a system table: db.t$snapshots, db.t$files, db.t$audit_log …
    """
    from paimon_engine.cli.rows_out import store_rows

    form = _output(output, to)
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    at = None if timestamp is None else epoch_ms(timestamp)
    reader = open_named(table, warehouse, storage, catalog).to_batches(
        chosen,
        where,
        snapshot,
        tag,
        at,
        branch=branch,
        incremental=None if incremental is None else bounds(incremental),
        with_row_kinds=row_kinds,
        options=key_values("--option", option),
    )
    if form is Output.TABLE and not escape_formulas:
        _show_rows(reader, SCREEN_ROWS if limit is None else limit)
        return
    if escape_formulas and form is not Output.CSV:
        raise InvalidArgumentError("--escape-formulas is for CSV: add --output csv")
    rows = store_rows(reader, limit, form, to, escape_formulas=escape_formulas)
    if to is not None:
        hint(f"{count(rows, 'row')} in {to}")


def _output(asked: Output | None, to: Path | None) -> Output:
    """Format of the rows: as given, else by the file's ending.

    Raises: InvalidArgumentError.
    """
    if to is None:
        if asked is Output.PARQUET:
            raise InvalidArgumentError("parquet needs a file to go to: add --to FILE")
        return asked or Output.TABLE
    if asked is Output.TABLE:
        raise InvalidArgumentError("--to needs --output json, csv or parquet")
    endings = {".jsonl": Output.JSON, ".json": Output.JSON, ".csv": Output.CSV, ".parquet": Output.PARQUET}
    form = asked or endings.get(to.suffix)
    if form is None:
        raise InvalidArgumentError(
            f"the format is not clear from the name {to.name}; add --output json, csv or parquet"
        )
    return form


def _show_rows(reader: pa.RecordBatchReader, limit: int) -> None:
    from paimon_engine.cli.rows_out import first_rows

    rows = [row for batch in first_rows(reader, limit + 1) for row in batch.to_pylist()]
    left_out = print_rows(reader.schema.names, rows[:limit])
    if left_out:
        hint(f"{count(len(left_out), 'more column')}: {', '.join(left_out)} (choose with --columns)")
    if len(rows) > limit:
        hint(f"the first {count(limit, 'row')}; more with --limit N, all with --output csv or json")
    elif not rows:
        hint("no rows")


def _open(command: str, warehouse: str | None, storage: Sequence[str] | None, catalog: Sequence[str] | None) -> Catalog:
    """The catalog that a command without a table is about."""
    if warehouse is None and not catalog:
        raise InvalidArgumentError(f"name a warehouse: paimon-engine {command} /lake")
    return open_catalog(warehouse, storage, catalog)


def doctor(
    address: Annotated[str | None, typer.Argument(metavar="[WAREHOUSE]", help="Warehouse: path or URL.")] = None,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the programs, the store and its clock, and say how to correct what is wrong."""
    found = _open("doctor", address or warehouse, storage, catalog).examine(programs=True)
    if as_json:
        print_json([item.to_dict() for item in found])
    else:
        rows = [
            {"what": item.what, "is": "ok" if item.is_ok else "problem", "found": item.found, "what to do": item.remedy}
            for item in found
        ]
        print_grid(rows, empty="", flexible=("found", "what to do"))
    if not all(item.is_ok for item in found):
        raise typer.Exit(1)


def tables(
    address: Annotated[str | None, typer.Argument(metavar="[WAREHOUSE]", help="Warehouse: path or URL.")] = None,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tables of a warehouse, with their newest snapshot."""
    lake = _open("tables", address or warehouse, storage, catalog)
    rows: list[dict[str, Any]] = []
    databases = lake.list_databases()
    if not databases and not catalog:
        _check_directory(lake.warehouse, storage)
    for database in databases:
        try:
            names = lake.list_tables(database)
        except PaimonError as error:
            # A directory that is no database must not hide the databases next to it.
            warn(f"left out: {error}")
            continue
        for name in names:
            full = f"{database}.{name}"
            try:
                table = lake.table(full)
                keys, partition_keys = table.schema.primary_keys, table.schema.partition_keys
                row = {"primary_key": list(keys), "partition_keys": list(partition_keys)}
                rows.append({"table": full, **row, "snapshot": table.latest_snapshot_id(), "error": None})
            except PaimonError as error:
                # One broken table must not hide the others.
                row = {"primary_key": [], "partition_keys": []}
                rows.append({"table": full, **row, "snapshot": None, "error": str(error)})
    if as_json:
        print_json(rows)
        return
    shown = [
        {
            "table": row["table"],
            "primary key": ", ".join(row["primary_key"]) or None,
            "partitioned by": ", ".join(row["partition_keys"]) or None,
            "snapshot": row["error"] or row["snapshot"],
        }
        for row in rows
    ]
    print_grid(shown, empty=f"no tables in {lake.warehouse}", flexible=("primary key", "partitioned by", "snapshot"))


def _check_directory(address: str, storage: Sequence[str] | None) -> None:
    """Raises NotFoundError if no directory is there: a warehouse in which nothing is found may be a misspelt one."""
    from paimon_engine.env import EnvConfig
    from paimon_engine.storage.locations import is_local

    if not is_local(address):
        # On an object store an empty directory is none.
        return
    try:
        is_dir = EnvConfig(address, storage_options(storage)).build().storage.stat(address).is_dir
    except NotFoundError as error:
        raise NotFoundError(f"no warehouse {address}: nothing is there") from error
    if not is_dir:
        raise NotFoundError(f"no warehouse {address}: it is a file")


def snapshots(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a table."""
    names = {
        "snapshot_id": "id", "commit_kind": "kind", "commit_time": "time (UTC)",
        "total_record_count": "records", "delta_record_count": "change", "commit_user": "user",
    }  # fmt: skip
    print_columns(
        open_named(table, warehouse, storage, catalog).snapshots(), names, as_json=as_json, empty="no snapshots yet"
    )


def tags(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    like: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only names such as '2013-01-*'.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only of snapshots committed then or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only of snapshots committed then or before.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tags of a table."""
    names = {
        "tag_name": "tag", "snapshot_id": "snapshot", "commit_time": "committed (UTC)", "record_count": "records",
        "time_retained": "kept for",
    }  # fmt: skip
    low, high = (None if text is None else epoch_ms(text) for text in (since, until))
    found = open_named(table, warehouse, storage, catalog).tags(like, since=low, until=high)
    print_columns(
        found, names, as_json=as_json, empty="no tags yet" if like is since is until is None else "no such tags"
    )


def files(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="Files of this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Files of this tag.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the live data files of a table."""
    names = {
        "partition": "partition", "bucket": "bucket", "level": "level", "record_count": "records",
        "file_size_in_bytes": "size", "min_key": "min key", "max_key": "max key",
    }  # fmt: skip
    found = open_named(table, warehouse, storage, catalog).files(snapshot, tag)
    print_columns(found, names, as_json=as_json, empty="no data files")
    if found.num_rows and not as_json:
        records, total = sum(found["record_count"].to_pylist()), sum(found["file_size_in_bytes"].to_pylist())
        hint(f"{count(found.num_rows, 'file')}, {size(total)}, {count(records, 'record')}")


def print_columns(found: pa.Table, names: Mapping[str, str], *, as_json: bool, empty: str) -> None:
    """Some columns as a grid, or all as JSON. Empty columns are left out of the grid."""
    if as_json:
        print_json(found.to_pylist())
        return
    shown_columns = {name: title for name, title in names.items() if _has_values(found[name].to_pylist())}
    rows = [{title: row[name] for name, title in shown_columns.items()} for row in found.to_pylist()]
    for row in rows:
        if "size" in row:
            row["size"] = size(row["size"])
    print_grid(rows, empty=empty, flexible=("user", "partition", "min key", "max key"))


def _has_values(values: list[Any]) -> bool:
    return any(value not in (None, "{}", "[]") for value in values)
