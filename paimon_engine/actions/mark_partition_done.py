"""Mark partitions as done: notify consumers that no more rows will be added.

The option `partition.mark-done-action` lists the actions, which are used in this order:

- `success-file`, the default, writes `_SUCCESS` into the partition's directory: JSON with the times of the first and of
  the last mark;
- `http-report` posts JSON with `partition`, `table`, `path` and `params` to `partition.mark-done-action.http.url`; the
  server says `{"result": "SUCCESS"}`. The caller that opens the table allows the address by the storage option
  `report-urls.allowed`, which Java does not need;
- `mark-event` notifies the server of a REST catalog;
- `done-partition` adds a partition to that server's list whose last value ends with `.done`. Other catalogs keep no
  such list (Java's Hive metastore does), so it is refused there.

`custom` names a Java class, and is refused.

Source: `PartitionMarkDoneAction` and its kinds in the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import InvalidArgumentError, NotFoundError, StorageError, UnsupportedError, damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, parse_object, reason, required_integer
from paimon_engine.meta.paths import partition_text
from paimon_engine.options.texts import split_list
from paimon_engine.specs import DryRun, PartitionValues, Spec
from paimon_engine.storage import REPORTS_ALLOWED
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.partitions import MARK_DONE_ACTION, SUCCESS_FILE, relative_path, whole_partition

_OPTION: Final = MARK_DONE_ACTION
_URL: Final = "partition.mark-done-action.http.url"
_PARAMS: Final = "partition.mark-done-action.http.params"
_HTTP_REPORT: Final = "http-report"
_MARK_EVENT: Final = "mark-event"
_DONE_PARTITION: Final = "done-partition"
_DONE_ENDING: Final = ".done"
_KNOWN_ACTIONS: Final = (SUCCESS_FILE, _HTTP_REPORT, _MARK_EVENT, _DONE_PARTITION)
_NEEDS_SERVER: Final = {
    _MARK_EVENT: "notifies the server of a REST catalog; this table has none",
    _DONE_PARTITION: "adds to the partitions that a REST catalog (in Java a Hive metastore) lists; this table has none",
}


@dataclass(frozen=True, slots=True)
class MarkPartitionDone(Spec):
    """Mark these partitions: a value for every partition column. A dry run says which notifications would be sent."""

    partitions: Annotated[Sequence[PartitionValues], "a value for every partition column: day=2013-01-01,hour=5"]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class MarkPartitionDoneResult(Result):
    """What was sent; `status` is `marked` or `dry_run`.

    `files` are the success files, `reported` the partitions that were reported to another server, as paths.
    """

    status: str
    files: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def mark_partition_done(context: Context, spec: MarkPartitionDone) -> MarkPartitionDoneResult:
    """Marks partitions as done; safe to repeat. Partitions without rows can be marked too.

    Raises: InvalidArgumentError if a partition is not named wholly, or an address is missing; UnsupportedError for
    actions that need a Hive metastore or Java; CorruptTableError if a success file is damaged; StorageError if a
    notification failed.
    """
    table = context.table
    actions = _actions(table)
    if not spec.partitions:
        raise InvalidArgumentError("name the partitions to mark: a list of {column: value}")
    found = [whole_partition(table, given) for given in spec.partitions]
    paths = [relative_path(table, values) for values in found]
    files = [f"{table.paths.root}/{path}/_SUCCESS" for path in paths] if SUCCESS_FILE in actions else []
    reported = paths if set(actions) - {SUCCESS_FILE} else []
    if not spec.dry_run:
        for name in actions:
            _notify(table, name, found, paths)
    status = "dry_run" if spec.dry_run else "marked"
    return MarkPartitionDoneResult(status, tuple(files), tuple(reported))


def _actions(table: TableHandle) -> tuple[str, ...]:
    """The marks that the table's option names, in its order; the success file where it does not say.

    Raises: UnsupportedError for marks that need Java or a server that is not there; InvalidArgumentError if the address
    of a report is missing or wrong.
    """
    raw = table.options.raw
    actions = split_list(raw.get(_OPTION, SUCCESS_FILE))
    if not actions:
        raise InvalidArgumentError(
            f"'{_OPTION}' = '{raw[_OPTION]}' names no way to mark a partition; use some of {', '.join(_KNOWN_ACTIONS)}"
        )
    for name in actions:
        if name not in _KNOWN_ACTIONS:
            why = "is a Java class, which cannot be called from here" if name == "custom" else "is not a known action"
            raise UnsupportedError(f"'{_OPTION}' = '{name}' {why}; use one of {', '.join(_KNOWN_ACTIONS)}")
        if name in _NEEDS_SERVER and table.snapshot_service is None:
            raise UnsupportedError(
                f"'{_OPTION}' = '{name}' {_NEEDS_SERVER[name]}; use {SUCCESS_FILE} or {_HTTP_REPORT}"
            )
    if _HTTP_REPORT in actions and not raw.get(_URL, "").strip():
        raise InvalidArgumentError(f"'{_OPTION}' = '{_HTTP_REPORT}' needs the option '{_URL}'")
    if _HTTP_REPORT in actions:
        _check_address(table, raw[_URL].strip())
    return actions


def _check_address(table: TableHandle, url: str) -> None:
    """Raises UnsupportedError unless the caller that opens the table allows the address that its options name.

    Otherwise a user who may change a table's options could make this process post to any server that it reaches.
    """
    from paimon_engine.metastores.http_report import is_allowed, server_of

    server = server_of(url)
    allowed = split_list(table.config.options.get(REPORTS_ALLOWED, ""))
    if not is_allowed(url, allowed):
        raise UnsupportedError(
            f"'{_URL}' leads to {server}, and what a table says is not enough to post there: allow it by the storage "
            f"option '{REPORTS_ALLOWED}' = '{server}/…', one or several addresses by comma"
        )


def _notify(table: TableHandle, name: str, partitions: Sequence[Sequence[Any]], paths: Sequence[str]) -> None:
    """Makes one kind of mark for all partitions, given by their values and, in the same order, by their paths.

    `_DONE_PARTITION` adds a partition beside each one, whose last value has an ending that says so.
    """
    if name == _MARK_EVENT:
        assert table.snapshot_service is not None
        table.snapshot_service.mark_done(table, [_texts(table, values) for values in partitions])
        return
    if name == _DONE_PARTITION:
        assert table.snapshot_service is not None
        last = table.schema.partition_keys[-1]
        texts = [_texts(table, values) for values in partitions]
        table.snapshot_service.add_partitions(table, [{**item, last: item[last] + _DONE_ENDING} for item in texts])
        return
    for path in paths:
        if name == _HTTP_REPORT:
            _report(table, path)
        else:
            _mark(table, f"{table.paths.root}/{path}/_SUCCESS")


def _texts(table: TableHandle, values: Sequence[Any]) -> dict[str, str]:
    """The partition as names and texts, as directories say them."""
    options = table.options
    return {
        field.name: options.partition_default_name
        if value is None
        else partition_text(field.type, value, legacy_name=options.partition_legacy_name)
        for field, value in zip(table.schema.partition_type, values, strict=True)
    }


def _report(table: TableHandle, path: str) -> None:
    raw = table.options.raw
    # Java's paths of partitions end with a separator.
    body = {"partition": f"{path}/", "table": _full_name(table), "path": table.paths.root, "params": raw.get(_PARAMS)}
    # Most tables report to no server, and an HTTP client takes a while to import.
    from paimon_engine.metastores.http_report import post_json

    answer = post_json(raw[_URL].strip(), body)
    status = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(status, str) or status.upper() != "SUCCESS":
        raise StorageError(
            f"partition {path} was reported, and the answer was {str(status)[:80]!r} instead of 'SUCCESS'"
        )


def _full_name(table: TableHandle) -> str:
    """`database.table`, as a server says it or else the directories."""
    if table.snapshot_service is not None:
        return table.snapshot_service.full_name()
    directory, _, name = table.paths.root.rpartition("/")
    return f"{directory.rpartition('/')[2].removesuffix('.db')}.{name}"


def _mark(table: TableHandle, path: str) -> None:
    storage, now_ms = table.env.storage, table.env.clock()
    created_ms = now_ms
    try:
        created_ms = required_integer(parse_object(storage.read(path), path), "creationTime")
    except NotFoundError:
        pass
    except WRONG as error:
        raise damaged(path, f"no valid success file: {reason(error)}") from error
    storage.overwrite(path, pretty_json({"creationTime": created_ms, "modificationTime": now_ms}).encode())
