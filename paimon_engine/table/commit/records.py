"""Records of named commits, which outlive their snapshots, so that a repeated job still finds what it has done.

A commit whose name somebody chose, in order to repeat it, keeps a record `commits/<name>.json` of its branch:

1. Before it first publishes its snapshot it notes its intent: the commit is in no snapshot up to `base`.
2. Once the snapshot is the table's, the record holds the snapshot: the commit is done.

An expiry of this engine completes the records of the snapshots that it is about to remove, and notes in `SETTLED` which
ids it has treated so. A rollback turns the records of what it takes back into intents again. Where a process dies in
between, the record is still true: it says less than could be said, never more. So the last writer wins, and no record
needs a lock. `table.commit.own_commits` reads them.

Commits that may be repeated without harm, such as compactions, have no record, and nor have commits without a name.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_engine.format.stored import WRONG, parse_object, reason, text, whole, whole_or_none
from paimon_engine.meta.commit_identifier import Maker, counts_up, is_done_by, maker_of
from paimon_engine.meta.snapshot import CommitKind, Snapshot, parse_snapshot, snapshot_to_json
from paimon_engine.table.commit.lineage import is_in_line
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import same_commit

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_ENDING: Final = ".json"
_SETTLED: Final = "SETTLED"
_NAME_DIGITS: Final = 40
_REPEATABLE: Final = frozenset(
    {
        Maker.REWRITE_FILE_INDEX,
        Maker.COMPACT_MANIFESTS,
        Maker.RESCALE,
        Maker.CLUSTER,
        Maker.REMOVE_UNEXISTING_FILES,
        Maker.REMOVE_UNEXISTING_MANIFESTS,
    }
)
"""What may be done once more without harm: it leaves the rows as they are."""
_REPEATABLE_JOBS: Final = (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass(frozen=True, slots=True)
class CommitKey:
    """The name of a commit."""

    user: str
    kind: CommitKind
    identifier: int

    @property
    def is_recorded(self) -> bool:
        """Whether such a commit keeps a record, if somebody chose its name."""
        if counts_up(self.identifier):
            return True
        maker = maker_of(self.identifier)
        if maker is Maker.JOB:
            return self.kind not in _REPEATABLE_JOBS
        return maker is not None and maker not in _REPEATABLE

    @property
    def file_name(self) -> str:
        """Safe as a file name, whatever the user is called. Identifiers that somebody counts up share a record."""
        number = "counted" if counts_up(self.identifier) else self.identifier
        name = json.dumps([self.user, str(self.kind), number])
        return hashlib.sha256(name.encode("utf-8", errors="surrogatepass")).hexdigest()[:_NAME_DIGITS] + _ENDING


def key_of(snapshot: Snapshot) -> CommitKey:
    """The name under which a snapshot was committed."""
    return CommitKey(snapshot.commit_user, snapshot.commit_kind, snapshot.commit_identifier)


@dataclass(frozen=True)
class CommitRecord:
    """What is known of a commit: `snapshot` if it is done, else that it is in no snapshot with an id up to `base`.

    Of identifiers that are counted up, `snapshot` may be that of an earlier one. `kept_until_ms` is when the record may
    be forgotten, in epoch milliseconds.
    """

    key: CommitKey
    base: int | None
    snapshot: Snapshot | None
    kept_until_ms: int

    def done(self, key: CommitKey) -> Snapshot | None:
        """The snapshot that shows that the commit of that name was made, if there is one."""
        if self.snapshot is None or not is_done_by(key.identifier, self.snapshot.commit_identifier):
            return None
        return self.snapshot

    def base_of(self, key: CommitKey) -> int | None:
        """Up to which snapshot it is certain that the commit of that name was not made; None if nothing is said."""
        return self.base if self.key.identifier == key.identifier else None


# ── one record ──────────────────────────────────────────────────────────────────────────────────


def record_path(table: TableHandle, key: CommitKey) -> str:
    """Where the record of that commit lies."""
    return f"{table.paths.commit_dir}/{key.file_name}"


def read_record(table: TableHandle, key: CommitKey) -> CommitRecord | None:
    """The record of that commit, None if there is none.

    Raises: CorruptTableError naming the way out.
    """
    return _read(table, record_path(table, key))


def write_record(table: TableHandle, key: CommitKey, *, base: int | None, snapshot: Snapshot | None) -> None:
    """Stores what is known of a commit. Raises: StorageError."""
    kept_until_ms = table.env.clock() + table.options.commit_record_retained_ms
    _store(table, CommitRecord(key, base, snapshot, kept_until_ms))


def _store(table: TableHandle, record: CommitRecord) -> None:
    value = {
        "version": _VERSION,
        "user": record.key.user,
        "kind": str(record.key.kind),
        "identifier": record.key.identifier,
        "base": record.base,
        "snapshot": None if record.snapshot is None else json.loads(snapshot_to_json(record.snapshot)),
        "keptUntilMillis": record.kept_until_ms,
    }
    table.env.storage.overwrite(record_path(table, record.key), json.dumps(value).encode())


def _read(table: TableHandle, path: str) -> CommitRecord | None:
    try:
        data = table.env.storage.read(path)
    except NotFoundError:
        return None
    try:
        value = parse_object(data, path)
        if whole(value, "version") != _VERSION:
            raise ValueError(f"version {value['version']}, expected {_VERSION}")
        key = CommitKey(text(value, "user"), CommitKind(value["kind"]), whole(value, "identifier"))
        return CommitRecord(
            key,
            whole_or_none(value, "base", 0),
            _snapshot(value["snapshot"], path),
            whole(value, "keptUntilMillis"),
        )
    except (CorruptTableError, *WRONG) as error:
        why = str(error) if isinstance(error, CorruptTableError) else reason(error)
        raise CorruptTableError(
            f"{path} is no valid record of a commit ({why}); look whether the rows of that job are in the table, then "
            "delete the file and run the job again, or leave it"
        ) from error


def _snapshot(value: Any, path: str) -> Snapshot | None:
    return None if value is None else parse_snapshot(json.dumps(value), path)


# ── when snapshots go ───────────────────────────────────────────────────────────────────────────


def settle_records(table: TableHandle, expiring: Sequence[Snapshot]) -> None:
    """Before snapshots expire, completes the records of their commits. Safe to repeat.

    Raises: StorageError: then the snapshots must stay.
    """
    names = _names(table)
    if not names or not expiring:
        return
    mine = [item for item in expiring if key_of(item).is_recorded and key_of(item).file_name in names]
    unknown = {item.id for item, is_known in zip(mine, in_threads(table, _complete, mine), strict=True) if not is_known}
    _note_settled(table, [item.id for item in expiring if item.id not in unknown])


def _complete(table: TableHandle, snapshot: Snapshot) -> bool:
    """Completes the record of the snapshot's commit, if it has one; False if nobody can tell whether it is one.

    That is so where another expiry has removed the snapshot meanwhile, and completes the record itself.
    """
    key = key_of(snapshot)
    try:
        record = read_record(table, key)
    except CorruptTableError as error:
        logger.warning("%s", error)
        return True
    if record is None:
        return True
    known = record.done(key)
    if known is not None and (counts_up(key.identifier) or same_commit(known, snapshot)):
        return True
    # A file that was created too late, for an id that had expired, is no commit.
    try:
        if table.snapshot_service is None and not is_in_line(table, snapshot):
            return True
    except OutcomeUnknownError as error:
        logger.warning("%s", error)
        return False
    if record.base is not None and record.base_of(key) is None:
        _store(table, replace(record, snapshot=snapshot))
    else:
        write_record(table, key, base=None, snapshot=snapshot)
    return True


def _note_settled(table: TableHandle, ids: Iterable[int]) -> None:
    """Notes that no intent can be in the snapshots of these ids, as far as they make an unbroken row."""
    newest_first = sorted(set(ids), reverse=True)
    if not newest_first:
        return
    last = first = newest_first[0]
    for number in newest_first[1:]:
        if number != first - 1:
            break
        first = number
    before = settled_ids(table)
    if before and before.start <= first <= before.stop:
        first = before.start
    _write_settled(table, range(first, last + 1))


def settled_ids(table: TableHandle) -> range:
    """Ids of expired snapshots that are certainly not those of commits whose records are intents."""
    path = f"{table.paths.commit_dir}/{_SETTLED}"
    try:
        value = parse_object(table.env.storage.read(path), path)
        return range(whole(value, "first", 1), whole(value, "last", 0) + 1)
    except (NotFoundError, CorruptTableError, *WRONG):
        return range(0)


def _write_settled(table: TableHandle, ids: range) -> None:
    value = {"first": ids.start, "last": ids.stop - 1}
    table.env.storage.overwrite(f"{table.paths.commit_dir}/{_SETTLED}", json.dumps(value).encode())


def take_back_records(table: TableHandle, target: int) -> None:
    """Before a rollback to snapshot `target` of the table's branch, lets no record claim a commit that goes.

    Safe to repeat. Raises: StorageError.
    """
    names = _names(table)
    if not names:
        return
    settled = settled_ids(table)
    if settled.stop > target + 1:
        _write_settled(table, range(min(settled.start, target + 1), target + 1))
    in_threads(table, _Lower(target), [f"{table.paths.commit_dir}/{name}" for name in sorted(names)])


@dataclass(frozen=True)
class _Lower:
    """Turns a record of what is beyond `target` into an intent."""

    target: int

    def __call__(self, table: TableHandle, path: str) -> None:
        try:
            record = _read(table, path)
        except CorruptTableError as error:
            logger.warning("%s", error)
            return
        if record is None:
            return
        goes = record.snapshot is not None and record.snapshot.id > self.target
        if goes:
            _store(table, replace(record, base=self.target, snapshot=None))
        elif record.base is not None and record.base > self.target:
            _store(table, replace(record, base=self.target))


def take_over_records(main: TableHandle, branch: TableHandle) -> None:
    """Gives main the records of a branch that it has become. Safe to repeat."""
    for name in sorted(_names(branch)):
        try:
            record = _read(branch, f"{branch.paths.commit_dir}/{name}")
            if record is not None and (record.snapshot is not None or read_record(main, record.key) is None):
                _store(main, record)
        except CorruptTableError as error:
            logger.warning("%s", error)


# ── when records go ─────────────────────────────────────────────────────────────────────────────


def forget_old_records(table: TableHandle) -> int:
    """Removes the branch's records whose time is over; how many. Raises: StorageError."""
    now_ms = table.env.clock()
    # A record is read only where it may be old: most are younger than the table's own limit.
    limit_ms = now_ms - table.options.commit_record_retained_ms
    old = [
        info.path
        for info in table.env.storage.list(table.paths.commit_dir)
        if not info.is_dir and info.path.endswith(_ENDING) and info.modified_ms <= limit_ms
    ]
    over = [path for path, is_over in zip(old, in_threads(table, _is_over, old), strict=True) if is_over]
    table.env.storage.delete(over)
    return len(over)


def _is_over(table: TableHandle, path: str) -> bool:
    try:
        record = _read(table, path)
    except PaimonError as error:
        logger.warning("%s", error)
        return False
    return record is not None and record.kept_until_ms < table.env.clock()


def _names(table: TableHandle) -> set[str]:
    """File names of the branch's records."""
    found = (info.path.rpartition("/")[2] for info in table.env.storage.list(table.paths.commit_dir) if not info.is_dir)
    return {name for name in found if name.endswith(_ENDING) and not name.startswith(".")}
