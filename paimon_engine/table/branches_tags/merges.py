"""What was merged into which branch: a property of the commit, and a file that outlives its snapshot.

`<root of a branch>/MERGED-<other>` has a record of each merge of the other branch into this one: the snapshots that
were merged, the snapshot here that has them, and what had been merged into the other one until then, since that comes
along, and branches may be deleted. `<root of the table>/FORWARDED` has a record of each fast-forward: which snapshots
of the table it left there, though those of the branch were not made from them. A record says nothing any more once a
rollback has removed its snapshot. No other engine reads these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.stored import WRONG, parse_object, required_integer, text
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import (
    branches,
    latest_snapshot_id,
    list_tags,
    read_snapshot,
    snapshots_newest_first,
)

MERGED: Final = "merged-branch"
"""The property of a commit that merges a branch."""
_FILE: Final = "MERGED-"
_FORWARDED: Final = "FORWARDED"
_INTO: Final = "into"
_RECORDS: Final = "records"
_COMMITS: Final = "commits"
_COMMON: Final = "common"
_EARLIER: Final = "earlier"

_CommitKey = tuple[int, str]
"""Number and delta manifest list of a snapshot: no commit to another branch has the same."""


@dataclass(frozen=True)
class _Merge:
    """A branch was merged: it had these commits then, as far as they were kept, and the newest one is always there.

    `into` is the number of the snapshot that the merge made, None if it is not known; `earlier` are the commits of
    other branches that had been merged into it before.
    """

    branch: str
    commits: frozenset[_CommitKey]
    into: int | None
    earlier: Mapping[str, frozenset[_CommitKey]]

    @property
    def all(self) -> dict[str, frozenset[_CommitKey]]:
        """Commits by branch."""
        return _joined([{self.branch: self.commits}, self.earlier])


def merged_commits(table: TableHandle, kept: Sequence[Snapshot]) -> set[_CommitKey]:
    """Commits of other branches that were merged, according to files and the table's snapshots."""
    merges = (*_merges_of_files(table), *_merges_of_snapshots(kept))
    return {commit for merge in merges for commits in merge.all.values() for commit in commits}


def _is_gone(table: TableHandle, record: Mapping[str, Any]) -> bool:
    """Whether the snapshot of a record was rolled back.

    An expiry removes the oldest snapshots and a rollback the newest, so its number is a later one, or another commit's.
    """
    number, delta = _number(record), text(record[_INTO], "deltaManifestList")
    if number > (latest_snapshot_id(table) or 0):
        return True
    try:
        return read_snapshot(table, number).delta_manifest_list != delta
    except NotFoundError:
        return False


def _number(record: Mapping[str, Any]) -> int:
    """The number of the snapshot of a record. Raises: what is in `WRONG`."""
    return required_integer(record[_INTO], "snapshot", 1)


def describe(source: TableHandle, snapshot: Snapshot) -> str:
    """The value of the property, for a merge up to that snapshot of the branch."""
    return json.dumps({"branch": source.paths.branch, **_fields(commit_of(snapshot))})


def store_marker(table: TableHandle, source: TableHandle, snapshot: Snapshot, made: Snapshot) -> None:
    """Writes the file, after the commit `made`, whose property says the same until its snapshot expires."""
    name = source.paths.branch
    # Not what is written to the branch, or merged into it, since then.
    until = [one for one in kept_snapshots(source) if one.id <= snapshot.id]
    merges = list(_merges_of_files(source))
    if commit_of(snapshot) not in {commit_of(one) for one in until}:
        # Rolled back meanwhile, or expired: what else the branch has may have come after that.
        until, merges = [snapshot], []
    merges += _merges_of_snapshots(until)
    path = _marker(table.paths, name)
    records = _folded(table, _merge_records(table, path, left_behind(table)))
    known = _joined(_merge(record).all for record in records)
    earlier = _joined(merge.all for merge in merges if merge.into is None or merge.into <= snapshot.id)
    here = {MAIN_BRANCH, *branches(table)}
    record = {
        "branch": name,
        **_fields(commit_of(snapshot)),
        _INTO: _fields(commit_of(made)),
        _COMMITS: _stored({commit_of(one) for one in until} - known.get(name, frozenset())),
        _EARLIER: {
            # What is deleted will not be rolled back.
            branch: _stored((commits if branch in here else {max(commits)}) - known.get(branch, frozenset()))
            for branch, commits in earlier.items()
        },
    }
    _store_records(table, path, [*records, record])


def _folded(table: TableHandle, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records, of which those are one to which no rollback goes back any more."""
    first = min((one.id for one in kept_snapshots(table)), default=0)
    old = [record for record in records if _number(record) < first]
    if len(old) < 2:
        return list(records)
    merges = [_merge(record) for record in old]
    both = {
        **old[-1],
        _COMMITS: _stored({commit for merge in merges for commit in merge.commits}),
        _EARLIER: {branch: _stored(commits) for branch, commits in _joined(one.earlier for one in merges).items()},
    }
    return [both, *(record for record in records if record not in old)]


def complete_markers(table: TableHandle, source: TableHandle) -> None:
    """Writes the file for a merge of the branch that died behind its commit, while a property still says so."""
    known = {commit for merge in _merges_of_files(table) for commit in merge.commits}
    for made in kept_snapshots(table):
        for merge in _merges_of_snapshots([made]):
            number = max(merge.commits)[0]
            if merge.branch != source.paths.branch or not merge.commits.isdisjoint(known):
                continue
            with suppress(NotFoundError):
                merged = read_snapshot(source, number)
                if commit_of(merged) in merge.commits:
                    store_marker(table, source, merged, made)
                    return


def commit_of(snapshot: Snapshot) -> _CommitKey:
    """What tells its commit from all others of the table's branches."""
    return snapshot.id, snapshot.delta_manifest_list


def _fields(commit: _CommitKey) -> dict[str, Any]:
    return {"snapshot": commit[0], "deltaManifestList": commit[1]}


def _stored(commits: Iterable[_CommitKey]) -> list[dict[str, Any]]:
    return [_fields(one) for one in sorted(commits)]


def _joined(found: Iterable[Mapping[str, Iterable[_CommitKey]]]) -> dict[str, frozenset[_CommitKey]]:
    """The commits by branch of all of them."""
    joined: dict[str, frozenset[_CommitKey]] = {}
    for commits_of in found:
        for branch, commits in commits_of.items():
            joined[branch] = joined.get(branch, frozenset()).union(commits)
    return joined


def keep_markers(table: TableHandle, old: str, new: str) -> None:
    """The branch `old` gets the name `new`: where it was merged, that one counts as merged."""
    storage = table.env.storage
    for name in (MAIN_BRANCH, *branches(table)):
        paths = TablePaths(table.paths.root, name)
        with suppress(NotFoundError):
            storage.overwrite(_marker(paths, new), storage.read(_marker(paths, old)))


def prepare_forward(main: TableHandle, branch: TableHandle, newest: int) -> None:
    """Before the table continues from the branch's snapshot of that number: notes what the branch does not have.

    The table keeps its snapshots that are older than the oldest one of the branch, and tags of others.
    """
    path, into = f"{main.paths.branch_root}/{_FORWARDED}", read_snapshot(branch, newest)
    records = _records(main, path, all_of_them=True)
    if records and records[-1][_INTO] == _fields(commit_of(into)):
        return  # an earlier try has noted it, before it removed snapshots
    theirs = {commit_of(one) for one in kept_snapshots(branch)}
    kept = {commit_of(one) for one in kept_snapshots(main)}
    common = max((number for number, _ in kept & theirs), default=0)
    left = {one for one in kept if one[0] > common} | left_behind(main)
    valid = [record for record in records if not _is_gone(main, record)]
    record = {_INTO: _fields(commit_of(into)), _COMMON: common, _COMMITS: _stored(left - theirs)}
    _store_records(main, path, [*valid, record])


def mark_forward(main: TableHandle, branch: TableHandle, newest: int) -> None:
    """The table has continued from the branch's snapshot of that number: each of both has what the other one has."""
    with suppress(NotFoundError):
        snapshot = read_snapshot(main, newest)
        for record in _records(main, f"{main.paths.branch_root}/{_FORWARDED}")[-1:]:
            with suppress(*WRONG):
                _take_back([path for _, path in _markers(main)], main, required_integer(record, _COMMON))
        store_marker(main, branch, snapshot, snapshot)
        store_marker(branch, main, snapshot, snapshot)


def left_behind(table: TableHandle) -> set[_CommitKey]:
    """The table's commits from which its later ones were not made, as a fast-forward put others behind them."""
    records = _records(table, f"{table.paths.branch_root}/{_FORWARDED}")
    with suppress(*WRONG):
        return set(_commits(records[-1][_COMMITS])) if records else set()
    return set()


def take_back_merges(table: TableHandle, newest: int) -> None:
    """A rollback has removed the snapshots behind that number: deletes the records of what they had.

    They say nothing any more, but that shows only until the numbers are given again, and these snapshots expire.
    """
    _take_back([f"{table.paths.branch_root}/{_FORWARDED}", *(path for _, path in _markers(table))], table, newest)


def _take_back(paths: Iterable[str], table: TableHandle, newest: int) -> None:
    for path in paths:
        records = _records(table, path, all_of_them=True)
        with suppress(*WRONG):
            kept = [record for record in records if _number(record) <= newest]
            if len(kept) < len(records):
                _store_records(table, path, kept)


def _records(table: TableHandle, path: str, *, all_of_them: bool = False) -> list[Mapping[str, Any]]:
    """The records in a file, by age, without those whose snapshot is gone; none if it cannot be parsed."""
    with suppress(NotFoundError, CorruptTableError, *WRONG):
        records = parse_object(table.env.storage.read(path), path)[_RECORDS]
        return [record for record in records if all_of_them or not _is_gone(table, record)]
    return []


def _store_records(table: TableHandle, path: str, records: Sequence[Mapping[str, Any]]) -> None:
    if records:
        table.env.storage.overwrite(path, json.dumps({_RECORDS: records}).encode())
    else:
        table.env.storage.delete([path])


def kept_snapshots(table: TableHandle) -> list[Snapshot]:
    """Snapshots of the table, and of its tags, from which its latest one was made."""
    left = left_behind(table)
    found = [*snapshots_newest_first(table), *(tag.snapshot for tag in list_tags(table))]
    return [one for one in found if commit_of(one) not in left]


def merged_into_both(table: TableHandle, source: TableHandle, base: Snapshot | None) -> list[str]:
    """As messages, what was merged into the branch since `base`, and is in the table, too.

    Compactions may have put its rows into other files since, in each of both, so nothing tells that they are the same.

    Example: main is merged into the branch, and the branch has compacted its files. Merged into main, these would add
    the rows of main once more.
    """
    begin = 0 if base is None else base.id
    later = list(snapshots_newest_first(source, newer_than=begin))
    merges = list(_merges_of_files(source))
    if later and later[-1].id == begin + 1:
        new = _names(_merges_of_snapshots(later))
        # And what these branches had merged, or are called since.
        new |= _names(merge for merge in merges if not new.isdisjoint(merge.all))
    else:
        # Some have expired: what was ever merged may have been merged since.
        new = _names(merges)
    # What came by earlier merges of the branch is in it since before `base`.
    others = [*_merges_of_files(table), *_merges_of_snapshots(list(snapshots_newest_first(table)))]
    here = _with_their_own(table, _names(merge for merge in others if merge.branch != source.paths.branch))
    both = _with_their_own(table, new) & {table.paths.branch, *here}
    return [
        f"{name!r} was merged into branch {source.paths.branch!r} since, so that rows of it would come twice; "
        "fast-forward to the branch, or write its rows"
        for name in sorted(both - {source.paths.branch})[:1]
    ]


def _with_their_own(table: TableHandle, names: set[str]) -> set[str]:
    """The branches, those that were merged into them, and so on."""
    found: set[str] = set()
    left = set(names)
    while left:
        found |= left
        left = {one for name in left for one in _merged_into(table, name)} - found
    return found


def _merged_into(table: TableHandle, name: str) -> set[str]:
    """The branches that were ever merged into that one, according to its files; none if it is deleted."""
    try:
        return _names(_merges_of_files(table if name == table.paths.branch else table.on_branch(name)))
    except NotFoundError:
        return set()


def _names(merges: Iterable[_Merge]) -> set[str]:
    return {name for merge in merges for name in merge.all}


def _merges_of_files(table: TableHandle) -> Iterator[_Merge]:
    """What was merged into the branch, and was not rolled back or left behind since."""
    markers = _markers(table)
    left = left_behind(table) if markers else set()
    for name, path in markers:
        for merge in map(_merge, _merge_records(table, path, left)):
            # The branch may have got another name since.
            yield replace(merge, branch=name, earlier=merge.all)


def _merge_records(table: TableHandle, path: str, left: set[_CommitKey]) -> list[Mapping[str, Any]]:
    """The records of merges in a file that can be parsed, and whose snapshot was not `left` behind."""
    found = []
    for record in _records(table, path):
        with suppress(*WRONG):
            _merge(record)
            if left.isdisjoint(_commits([record[_INTO]])):
                found.append(record)
    return found


def _merges_of_snapshots(snapshots: Iterable[Snapshot]) -> Iterator[_Merge]:
    """What the properties of these snapshots say."""
    for snapshot in snapshots:
        properties = snapshot.extras.get("properties")
        stored = properties.get(MERGED) if isinstance(properties, Mapping) else None
        if isinstance(stored, str):
            with suppress(CorruptTableError, *WRONG):
                yield _merge(parse_object(stored, MERGED))


def _merge(value: Mapping[str, Any]) -> _Merge:
    """Raises: what is in `WRONG`."""
    into = value.get(_INTO)
    earlier = value.get(_EARLIER, {})
    return _Merge(
        text(value, "branch"),
        _commits([value, *value.get(_COMMITS, ())]),
        None if into is None else required_integer(into, "snapshot", 1),
        {branch: _commits(commits) for branch, commits in earlier.items()},
    )


def _commits(values: Iterable[Mapping[str, Any]]) -> frozenset[_CommitKey]:
    return frozenset((required_integer(one, "snapshot", 1), text(one, "deltaManifestList")) for one in values)


def _markers(table: TableHandle) -> list[tuple[str, str]]:
    """The branches that were merged into this one, and the files that say so."""
    listed = [(info.path.rpartition("/")[2], info) for info in table.env.storage.list(table.paths.branch_root)]
    return [(name[len(_FILE) :], info.path) for name, info in listed if not info.is_dir and name.startswith(_FILE)]


def _marker(paths: TablePaths, merged: str) -> str:
    return f"{paths.branch_root}/{_FILE}{merged}"
