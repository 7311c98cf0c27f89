"""Commands on branches and consumers."""

from __future__ import annotations

from typing import Annotated

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    ParallelismOption,
    QuarantineOption,
    RateOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    epoch_ms,
    job_on,
    open_named,
)
from paimon_engine.cli.look import print_columns
from paimon_engine.cli.outcome import gone, tell, words
from paimon_engine.cli.running import run_quick
from paimon_engine.cli.terminal import count, warn

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the branch.")]
ConsumerArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the consumer.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    branch = typer.Typer(help="List, create, rename, delete, merge and fast-forward branches.", no_args_is_help=True)
    branch.command("list", epilog=example + "`paimon-engine branch list db.t -w /lake`")(branch_list)
    branch.command("create", epilog=example + "`paimon-engine branch create db.t dev -w /lake --tag 2013-01-01`")(
        branch_create
    )
    branch.command("rename", epilog=example + "`paimon-engine branch rename db.t dev next -w /lake`")(branch_rename)
    branch.command("delete", epilog=example + "`paimon-engine branch delete db.t dev -w /lake --dry-run`")(
        branch_delete
    )
    branch.command("merge", epilog=example + "`paimon-engine branch merge db.t dev -w /lake --dry-run`")(branch_merge)
    branch.command("fast-forward", epilog=example + "`paimon-engine branch fast-forward db.t dev -w /lake --yes`")(
        branch_fast_forward
    )
    app.add_typer(branch, name="branch")
    consumer = typer.Typer(help="List, move and forget consumers.", no_args_is_help=True)
    consumer.command("list", epilog=example + "`paimon-engine consumer list db.t -w /lake`")(consumer_list)
    consumer.command("reset", epilog=example + "`paimon-engine consumer reset db.t etl -w /lake --next 7`")(
        consumer_reset
    )
    consumer.command("clear", epilog=example + "`paimon-engine consumer clear db.t -w /lake --including 'etl-.*'`")(
        consumer_clear
    )
    consumer.command("expire", epilog=example + "`paimon-engine consumer expire db.t -w /lake --dry-run`")(
        consumer_expire
    )
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


def branch_create(
    table: TableArgument,
    name: NameArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Tag to begin with.")] = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="Snapshot to begin with.")] = None,
    ignore_existing: Annotated[bool, typer.Option("--ignore-existing", help="A branch that exists is fine.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a branch of a tag or a snapshot, or an empty one."""
    from paimon_engine.actions.branches import CreateBranch

    spec = CreateBranch(name, tag, snapshot, "ignore" if ignore_existing else "error")
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "making the branch")
    at = "empty" if details["snapshot_id"] is None else f"at snapshot {details['snapshot_id']}"
    tell(details, f"{words(details)}: branch {name}, {at}", as_json=as_json)


def branch_rename(
    table: TableArgument,
    name: NameArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new name.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a branch another name."""
    from paimon_engine.actions.branches import RenameBranch

    details = run_quick(job_on(table, warehouse, storage, catalog, RenameBranch(name, to)), "renaming the branch")
    tell(details, f"{words(details)}: branch {to}", as_json=as_json)


def branch_delete(
    table: TableArgument,
    name: NameArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a branch, and the files that only it needed."""
    from paimon_engine.actions.branches import DeleteBranch

    spec = DeleteBranch(
        name, dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "deleting the branch")
    tell(details, f"{words(details)}: branch {name}, with {gone(details)} that only it needed", as_json=as_json)


def branch_fast_forward(
    table: TableArgument,
    name: NameArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the table what the branch is. What it had since the branch began is deleted."""
    from paimon_engine.actions.branches import FastForward

    spec = FastForward(name, dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism)
    job = job_on(table, warehouse, storage, catalog, spec)
    if not yes and not dry_run:
        typer.confirm(f"Delete what the table had since branch {name} began?", abort=True, err=True)
    details = run_quick(job, "fast-forwarding")
    removed = f"{count(len(details['removed_snapshots']), 'snapshot')}, {count(len(details['removed_tags']), 'tag')}"
    text = (
        f"{words(details)}: to snapshot {details['snapshot_id']} of branch {name}; removed {removed}, {gone(details)}"
    )
    tell(details, text, as_json=as_json)


def branch_merge(
    table: TableArgument,
    name: NameArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring what the branch has changed into the table, in one commit. Both may have gone on in other buckets."""
    from paimon_engine.actions.merge_branch import MergeBranch

    details = run_quick(job_on(table, warehouse, storage, catalog, MergeBranch(name, dry_run)), "merging")
    changed = f"added {count(details['files_added'], 'file')}, removed {details['files_removed']:,}"
    text = f"{words(details)}: branch {name} up to its snapshot {details['merged_snapshot']}; {changed}"
    tell(details, text, as_json=as_json)
    if not as_json:
        for reason in details["conflicts"]:
            warn(f"in the way: {reason}")
    if details["conflicts"]:
        raise typer.Exit(1)


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


def consumer_reset(
    table: TableArgument,
    name: ConsumerArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    next_snapshot: Annotated[
        int | None,
        typer.Option("--next", metavar="ID", help="Snapshot to go on from; without it, forget the consumer."),
    ] = None,
    quarantine: QuarantineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move a consumer, or forget it."""
    from paimon_engine.actions.consumers import ResetConsumer

    job = job_on(table, warehouse, storage, catalog, ResetConsumer(name, next_snapshot, quarantine))
    details = run_quick(job, "moving the consumer")
    to = "" if next_snapshot is None else f", next snapshot {next_snapshot}"
    tell(details, f"{words(details)}: consumer {name}{to}", as_json=as_json)


def consumer_clear(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    including: Annotated[str, typer.Option(metavar="REGEX", help="Those whose whole names match.")] = ".*",
    excluding: Annotated[str | None, typer.Option(metavar="REGEX", help="But not those that match this.")] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget consumers by their names."""
    from paimon_engine.actions.consumers import ClearConsumers

    job = job_on(table, warehouse, storage, catalog, ClearConsumers(including, excluding, dry_run, quarantine))
    details = run_quick(job, "forgetting consumers")
    tell(details, _removed(details["removed"], words(details)), as_json=as_json)


def consumer_expire(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not moved since: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget consumers that have not moved since then, or for the table's consumer.expiration-time."""
    from paimon_engine.actions.consumers import ExpireConsumers

    limit = None if older_than is None else epoch_ms(older_than)
    job = job_on(table, warehouse, storage, catalog, ExpireConsumers(limit, dry_run, quarantine))
    details = run_quick(job, "forgetting consumers")
    tell(details, _removed(details["removed"], words(details)), as_json=as_json)


def _removed(names: list[str], status: str) -> str:
    return f"{status}: {', '.join(names)}" if names else "no consumer to forget"
