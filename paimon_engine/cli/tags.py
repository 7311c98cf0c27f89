"""Commands on tags: tag create, rename, delete, expire, create-due."""

from __future__ import annotations

from enum import StrEnum
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
)
from paimon_engine.cli.outcome import gone, tell, words
from paimon_engine.cli.running import run_quick
from paimon_engine.cli.terminal import count
from paimon_engine.units import parse_duration_ms

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tag.")]


class IfExists(StrEnum):
    """What to do about a tag of that name."""

    VERIFY = "verify"
    IGNORE = "ignore"
    REPLACE = "replace"
    ERROR = "error"


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    tag = typer.Typer(help="Create, rename, delete and expire tags.", no_args_is_help=True)
    tag.command(
        "create",
        epilog=example
        + "`paimon-engine tag create /lake/db.db/t 2013-01-01`\n\n"
        + "`paimon-engine tag create db.t noon -w /lake --timestamp 2013-01-01T12:00 --retain '30 d'`",
    )(tag_create)
    tag.command("rename", epilog=example + "`paimon-engine tag rename /lake/db.db/t 2013-01-01 new-year`")(tag_rename)
    tag.command("delete", epilog=example + "`paimon-engine tag delete /lake/db.db/t 2013-01-01 --dry-run`")(tag_delete)
    tag.command("expire", epilog=example + "`paimon-engine tag expire db.t -w /lake --older-than 2013-01-31`")(
        tag_expire
    )
    tag.command("create-due", epilog=example + "`paimon-engine tag create-due db.t -w /lake --dry-run`")(tag_create_due)
    app.add_typer(tag, name="tag")


def tag_create(
    table: TableArgument,
    name: NameArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="Snapshot to name; else the latest.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="The first snapshot at this time or later.")
    ] = None,
    watermark: Annotated[
        int | None, typer.Option(metavar="MS", help="The first snapshot whose watermark has got so far.")
    ] = None,
    retain: Annotated[str | None, typer.Option(metavar="TIME", help="How long to keep it: '30 d', '12 h'.")] = None,
    if_exists: Annotated[
        IfExists, typer.Option(help="A tag of that name is fine on the same snapshot (verify), or anyway (ignore).")
    ] = IfExists.VERIFY,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name a snapshot, so that expiry leaves it alone. Safe to repeat."""
    from paimon_engine.actions.tags import CreateTag

    retained_ms = None if retain is None else parse_duration_ms(retain)
    moment = None if timestamp is None else epoch_ms(timestamp)
    spec = CreateTag(
        name,
        snapshot,
        if_exists.value,
        retained_ms,
        moment,
        watermark,
        dry_run,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "creating the tag")
    tell(details, f"{words(details)}: tag {name} on snapshot {details['snapshot_id']}", as_json=as_json)


def tag_rename(
    table: TableArgument,
    name: NameArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new name.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a tag another name."""
    from paimon_engine.actions.tags import RenameTag

    details = run_quick(job_on(table, warehouse, storage, catalog, RenameTag(name, to)), "renaming the tag")
    tell(details, f"{words(details)}: tag {to} on snapshot {details['snapshot_id']}", as_json=as_json)


def tag_delete(
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
    """Delete a tag, and the files that only it kept."""
    from paimon_engine.actions.tags import DeleteTag

    spec = DeleteTag(name, dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism)
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "deleting the tag")
    tell(details, f"{words(details)}: tag {name}, with {gone(details)} that only it kept", as_json=as_json)


def tag_expire(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Also all made before: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete tags whose time is over, and the files that only they kept."""
    from paimon_engine.actions.expire_tags import ExpireTags

    limit = None if older_than is None else epoch_ms(older_than)
    spec = ExpireTags(limit, dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism)
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "expiring tags")
    expired = list(details["expired"])
    text = f"{words(details)}: {count(len(expired), 'tag')} ({', '.join(expired)}), {gone(details)}"
    tell(details, text if expired else "no tag's time is over", as_json=as_json)


def tag_create_due(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the tags that the table's option tag.automatic-creation asks for by now."""
    from paimon_engine.actions.create_due_tags import CreateDueTags

    spec = CreateDueTags(dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism)
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "making tags")
    made = [f"{name} on snapshot {number}" for name, number in details["created"].items()]
    text = f"{words(details)}: {', '.join(made)}" if made else "no tag is due"
    if dropped := details["deleted_tags"]:
        text += f"; {count(len(dropped), 'older tag')} dropped, {gone(details)}"
    tell(details, text, as_json=as_json)
