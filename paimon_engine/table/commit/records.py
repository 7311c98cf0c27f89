"""Records of named commits, which are kept longer than snapshots, so that a repeated job finds its earlier commit.

A commit whose name the caller chose, in order to repeat the job, has a record `commits/<hash of the name>.json` in its
branch:

1. Intent: written before its snapshot is first published. It says: the commit is in no snapshot with an id up to
   `base`.
2. Done: written after its snapshot was published. It holds that snapshot.

Before an expiry of this engine removes snapshots, it completes the records of their commits, and then adds their ids to
the file `SETTLED`: no intent belongs to a snapshot of these ids. Before a rollback removes snapshots, it turns records
of their commits back into intents.

Each of these writes may be missing after a crash, and the record is still true, only less complete. For
example, after a crash between publishing and step 2 it still says "in no snapshot up to `base`". Two processes may
write a record at the same time for the same reason, without a lock. `table.commit.own_commits` reads the records.

Commits that may be repeated without harm, such as compactions, have no record; nor have commits without a chosen name.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_engine.format.stored import WRONG, integer_or_none, parse_object, reason, required_integer, text
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
"""Actions that may be repeated without harm: they do not change the table's rows."""
_REPEATABLE_JOBS: Final = (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass(frozen=True, slots=True)
class CommitKey:
    """The name of a commit."""

    user: str
    kind: CommitKind
    identifier: int

    @property
    def is_recorded(self) -> bool:
        """Whether such a commit has a record, if the caller chose its name."""
        if counts_up(self.identifier):
            return True
        maker = maker_of(self.identifier)
        if maker is Maker.JOB:
            return self.kind not in _REPEATABLE_JOBS
        return maker is not None and maker not in _REPEATABLE

    @property
    def file_name(self) -> str:
        """Name of the record's file: a hash, as the user may contain any character.

        Identifiers that a caller counts up (1, 2, 3 … of a stream) share one record, since each follows the one before.
        """
        number = "counted" if counts_up(self.identifier) else self.identifier
        name = json.dumps([self.user, str(self.kind), number])
        return hashlib.sha256(name.encode("utf-8", errors="surrogatepass")).hexdigest()[:_NAME_DIGITS] + _ENDING


def key_of(snapshot: Snapshot) -> CommitKey:
    """The name under which a snapshot was committed."""
    return CommitKey(snapshot.commit_user, snapshot.commit_kind, snapshot.commit_identifier)


@dataclass(frozen=True)
class CommitRecord:
    """What is known of a commit: its `snapshot` if it is done, else that it is in no snapshot with an id up to `base`.

    With identifiers that are counted up, both may be set: `snapshot` of an earlier identifier, `base` of the current
    one. `kept_until_ms` (epoch milliseconds) is when the record may be deleted.
    """

    key: CommitKey
    base: int | None
    snapshot: Snapshot | None
    kept_until_ms: int

    def done(self, key: CommitKey) -> Snapshot | None:
        """The snapshot that proves that the commit of that name was made; None if the record has none."""
        if self.snapshot is None or not is_done_by(key.identifier, self.snapshot.commit_identifier):
            return None
        return self.snapshot

    def base_of(self, key: CommitKey) -> int | None:
        """The id up to which no snapshot is the commit of that name; None if the record says nothing about it."""
        return self.base if self.key.identifier == key.identifier else None


# ── one record ──────────────────────────────────────────────────────────────────────────────────


def record_path(table: TableHandle, key: CommitKey) -> str:
    """Path of the record of that commit."""
    return f"{table.paths.commit_dir}/{key.file_name}"


def read_record(table: TableHandle, key: CommitKey) -> CommitRecord | None:
    """The record of that commit, None if there is none.

    Raises: CorruptTableError naming what to do.
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
    """The record at that path, None if it does not exist.

    Raises: CorruptTableError that says how to decide whether the job was done.
    """
    try:
        data = table.env.storage.read(path)
    except NotFoundError:
        return None
    try:
        value = parse_object(data, path)
        if required_integer(value, "version") != _VERSION:
            raise ValueError(f"version {value['version']}, expected {_VERSION}")
        key = CommitKey(text(value, "user"), CommitKind(value["kind"]), required_integer(value, "identifier"))
        return CommitRecord(
            key,
            integer_or_none(value, "base", 0),
            _snapshot(value["snapshot"], path),
            required_integer(value, "keptUntilMillis"),
        )
    except (CorruptTableError, *WRONG) as error:
        why = str(error) if isinstance(error, CorruptTableError) else reason(error)
        raise CorruptTableError(
            f"{path} is not a valid commit record ({why}); check whether the rows of that job are in the table: if "
            "not, delete the file and run the job again"
        ) from error


def _snapshot(value: Any, path: str) -> Snapshot | None:
    return None if value is None else parse_snapshot(json.dumps(value), path)


# ── before snapshots are removed ────────────────────────────────────────────────────────────────


def settle_records(table: TableHandle, expiring: Sequence[Snapshot]) -> None:
    """Completes the records of commits whose snapshots are about to expire. Safe to repeat.

    Raises: StorageError; the snapshots must stay then.
    """
    names = _names(table)
    if not names or not expiring:
        return
    mine = [item for item in expiring if key_of(item).is_recorded and key_of(item).file_name in names]
    unknown = {item.id for item, is_known in zip(mine, in_threads(table, _complete, mine), strict=True) if not is_known}
    _note_settled(table, [item.id for item in expiring if item.id not in unknown])


def _complete(table: TableHandle, snapshot: Snapshot) -> bool:
    """Completes the record of the snapshot's commit, if it has one.

    False if it cannot be decided whether the snapshot is part of the history: another expiry has removed it meanwhile,
    and completes the record itself.
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
    # A snapshot file that was created late, for an id that had already expired, is not a commit (`lineage`).
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
    """Stores that no intent belongs to a snapshot of these ids.

    `SETTLED` holds one range. Only the newest ids without a gap go into it, joined to the stored range if they meet.
    """
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
    """Ids of expired snapshots that certainly belong to no commit whose record is still an intent.

    Empty if the file is missing or damaged: then intents stay undecided, which is safe.
    """
    path = f"{table.paths.commit_dir}/{_SETTLED}"
    try:
        value = parse_object(table.env.storage.read(path), path)
        return range(required_integer(value, "first", 1), required_integer(value, "last", 0) + 1)
    except (NotFoundError, CorruptTableError, *WRONG):
        return range(0)


def _write_settled(table: TableHandle, ids: range) -> None:
    value = {"first": ids.start, "last": ids.stop - 1}
    table.env.storage.overwrite(f"{table.paths.commit_dir}/{_SETTLED}", json.dumps(value).encode())


def take_back_records(table: TableHandle, target: int) -> None:
    """Turns records of snapshots beyond `target` into intents, before a rollback of the branch to `target`.

    If the process dies between this and the rollback, the commits' snapshots still exist and are found there. Safe to
    repeat. Raises: StorageError.
    """
    names = _names(table)
    if not names:
        return
    settled = settled_ids(table)
    if settled.stop > target + 1:
        _write_settled(table, range(min(settled.start, target + 1), target + 1))
    in_threads(table, _RollBackRecord(target), [f"{table.paths.commit_dir}/{name}" for name in sorted(names)])


@dataclass(frozen=True)
class _RollBackRecord:
    """Turns a record of a snapshot beyond `target` into an intent; a `base` beyond it becomes `target`."""

    target: int

    def __call__(self, table: TableHandle, path: str) -> None:
        try:
            record = _read(table, path)
        except CorruptTableError as error:
            logger.warning("%s", error)
            return
        if record is None:
            return
        is_rolled_back = record.snapshot is not None and record.snapshot.id > self.target
        if is_rolled_back:
            _store(table, replace(record, base=self.target, snapshot=None))
        elif record.base is not None and record.base > self.target:
            _store(table, replace(record, base=self.target))


def take_over_records(main: TableHandle, branch: TableHandle) -> None:
    """Copies the records of a branch to main, after main was fast-forwarded to that branch. Safe to repeat."""
    for name in sorted(_names(branch)):
        try:
            record = _read(branch, f"{branch.paths.commit_dir}/{name}")
            if record is not None and (record.snapshot is not None or read_record(main, record.key) is None):
                _store(main, record)
        except CorruptTableError as error:
            logger.warning("%s", error)


# ── deleting old records ────────────────────────────────────────────────────────────────────────


def forget_old_records(table: TableHandle) -> int:
    """Deletes records of the branch that are older than `commit-record.time-retained`; returns how many.

    Raises: StorageError.
    """
    now_ms = table.env.clock()
    # Reading each record would cost a request per record. Most files are younger than the option allows: skip these.
    limit_ms = now_ms - table.options.commit_record_retained_ms
    old = [
        info.path
        for info in table.env.storage.list(table.paths.commit_dir)
        if not info.is_dir and info.path.endswith(_ENDING) and info.modified_ms <= limit_ms
    ]
    over = [path for path, is_over in zip(old, in_threads(table, _may_be_deleted, old), strict=True) if is_over]
    table.env.storage.delete(over)
    return len(over)


def _may_be_deleted(table: TableHandle, path: str) -> bool:
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
