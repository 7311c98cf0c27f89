"""Commands on branches and consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    JsonOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    open_named,
)
from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.look import print_columns
from paimon_engine.cli.outcome import deleted_text, print_outcome, words
from paimon_engine.cli.terminal import count, warn


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    example = "Examples:\n\n"
    branch = typer.Typer(help="List, create, rename, delete, merge and fast-forward branches.", no_args_is_help=True)
    branch.command("list", epilog=example + "`paimon-engine branch list db.t -w /lake`")(branch_list)
    add_faces(branch, "branch create", "branch rename", "branch delete", "branch merge", "branch fast-forward")
    app.add_typer(branch, name="branch")
    consumer = typer.Typer(help="List, move and delete consumers.", no_args_is_help=True)
    consumer.command("list", epilog=example + "`paimon-engine consumer list db.t -w /lake`")(consumer_list)
    add_faces(consumer, "consumer reset", "consumer clear", "consumer expire")
    app.add_typer(consumer, name="consumer")


def branch_list(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List branches."""
    names = {"branch_name": "branch", "create_time": "created (UTC)"}
    print_columns(
        open_named(table, warehouse, storage, catalog).branches(), names, as_json=as_json, empty="no branches"
    )


@face(
    "branch create",
    "`paimon-engine branch create db.t dev -w /lake --tag 2013-01-01`",
    action="create_branch",
    doing="making the branch",
    arguments=("branch",),
)
def branch_create(details: Mapping[str, Any], spec: Any) -> None:
    """Make a branch of a tag or a snapshot, or an empty one."""
    at = "empty" if details["snapshot_id"] is None else f"at snapshot {details['snapshot_id']}"
    print_outcome(details, f"{words(details)}: branch {spec.branch}, {at}")


@face(
    "branch rename",
    "`paimon-engine branch rename db.t dev next -w /lake`",
    action="rename_branch",
    doing="renaming the branch",
    arguments=("branch", "to"),
)
def branch_rename(details: Mapping[str, Any], spec: Any) -> None:
    """Give a branch another name."""
    print_outcome(details, f"{words(details)}: branch {spec.to}")


@face(
    "branch delete",
    "`paimon-engine branch delete db.t dev -w /lake --dry-run`",
    action="delete_branch",
    doing="deleting the branch",
    arguments=("branch",),
)
def branch_delete(details: Mapping[str, Any], spec: Any) -> None:
    """Delete a branch, and the files that only it needed."""
    print_outcome(details, f"{words(details)}: branch {spec.branch}, with {deleted_text(details)} that only it needed")


@face(
    "branch fast-forward",
    "`paimon-engine branch fast-forward db.t dev -w /lake --yes`",
    action="fast_forward",
    doing="fast-forwarding",
    arguments=("branch",),
    question="Delete what was committed to the table since branch {branch} began?",
)
def branch_fast_forward(details: Mapping[str, Any], spec: Any) -> None:
    """Set the table to the state of the branch. What was committed to the table since the branch began is deleted."""
    removed = f"{count(len(details['removed_snapshots']), 'snapshot')}, {count(len(details['removed_tags']), 'tag')}"
    at = f"to snapshot {details['snapshot_id']} of branch {spec.branch}"
    print_outcome(details, f"{words(details)}: {at}; removed {removed}, {deleted_text(details)}")


@face(
    "branch merge",
    "`paimon-engine branch merge db.t dev -w /lake --dry-run`",
    action="merge_branch",
    doing="merging",
    arguments=("branch",),
)
def branch_merge(details: Mapping[str, Any], spec: Any) -> None:
    """Bring the changes of the branch into the table, in one commit; both may have changed in different buckets."""
    changed = f"added {count(details['files_added'], 'file')}, removed {details['files_removed']:,}"
    print_outcome(
        details, f"{words(details)}: branch {spec.branch} up to snapshot {details['merged_snapshot']}; {changed}"
    )
    for reason in details["conflicts"]:
        warn(f"in the way: {reason}")


def consumer_list(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List consumers, and the snapshot that each reads next."""
    names = {"consumer_id": "consumer", "next_snapshot_id": "next snapshot"}
    found = open_named(table, warehouse, storage, catalog).consumers()
    print_columns(found, names, as_json=as_json, empty="no consumers")


@face(
    "consumer reset",
    "`paimon-engine consumer reset db.t etl -w /lake --next 7`",
    action="reset_consumer",
    doing="moving the consumer",
    arguments=("consumer",),
    options={"next_snapshot": "--next"},
)
def consumer_reset(details: Mapping[str, Any], spec: Any) -> None:
    """Move a consumer, or delete it."""
    to = "" if spec.next_snapshot is None else f", next snapshot {spec.next_snapshot}"
    print_outcome(details, f"{words(details)}: consumer {spec.consumer}{to}")


@face(
    "consumer clear",
    "`paimon-engine consumer clear db.t -w /lake --including 'etl-.*'`",
    action="clear_consumers",
    doing="deleting consumers",
)
def consumer_clear(details: Mapping[str, Any], _: Any) -> None:
    """Delete consumers by their names."""
    print_outcome(details, _removed(details["removed"], words(details)))


@face(
    "consumer expire",
    "`paimon-engine consumer expire db.t -w /lake --older-than 2013-01-31`",
    action="expire_consumers",
    doing="deleting consumers",
)
def consumer_expire(details: Mapping[str, Any], _: Any) -> None:
    """Delete consumers that have not moved since then, or for the table's consumer.expiration-time."""
    print_outcome(details, _removed(details["removed"], words(details)))


def _removed(names: list[str], status: str) -> str:
    return f"{status}: {', '.join(names)}" if names else "no consumer to delete"
