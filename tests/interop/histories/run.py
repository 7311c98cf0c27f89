"""Runs a program three times, in Java, here and in turns, and reports where the three tables differ.

| what | of | read by |
| --- | --- | --- |
| which steps were refused | all | |
| rows after each step, or at the end of each step's snapshot and of each tag | all | Java and this engine |
| changelog of each step | all | Java |
| what changed between two snapshots, and `$audit_log` of it | all | Java and this engine |
| deleted positions after each step | all | Java, where the options alone say what compactions take |
| metadata held against files | here and in turns | Java's `check` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.orc as orc
import pyarrow.parquet as pq

from paimon_engine import InvalidArgumentError, PaimonError, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.read.incremental import plan_changes
from paimon_engine.table.read.read_request import Changes
from paimon_engine.table.read.reader import RowSelection
from paimon_engine.table.state.handle import load_table
from tests.interop.histories.modes import (
    PRODUCER,
    VECTORS,
    adds_up,
    as_then,
    marks,
    options_after,
    producer_of,
    why_not_ready,
)
from tests.interop.histories.null_keys import OPTION as NULL_KEYS
from tests.interop.histories.program import Program, Step
from tests.interop.histories.values import ARRAYS_OF_ARRAYS, LINES
from tests.support.canonical import Row, difference, rows_of, table_of, text_of
from tests.support.nullable_keys import allow_null_keys
from tests.support.oracle import JavaPaimon

SIDES = ("java", "here", "turns")
NOW: Mapping[str, Mapping[str, Any]] = {side: {} for side in SIDES}
"""Which state of each table is read: the latest one."""
CHANGES = {
    "add": "add_column",
    "rename": "rename_column",
    "drop": "drop_column",
    "type": "update_column_type",
    "nullable": "update_column_nullability",
    "move": "move_column",
    "set_option": "set_option",
    "remove_option": "remove_option",
}


_Read = tuple[list[str], list[Row]]
"""Names of the columns, and rows."""
_Tried = tuple[_Read | None, str]
"""What was read, or why it was refused."""


class Difference(AssertionError):
    """The three tables are not one."""


def check_program(program: Program, oracle: JavaPaimon, folder: Path) -> None:
    """Raises Difference, naming step and table, if the sides differ in anything."""
    paths = {side: folder / side / "db.db" / "t" for side in SIDES}
    for path in paths.values():
        oracle.call(
            "create_table",
            table=str(path),
            fields=[list(one) for one in program.fields],
            primary_keys=list(program.primary_keys),
            partition_keys=list(program.partition_keys),
            options=dict(program.options),
        )
        if NULL_KEYS in program.options:
            allow_null_keys(path)
    trial = _Trial(program, oracle, paths)
    trial.run()
    trial.compare()


class _Trial:
    """One program on its three tables."""

    def __init__(self, program: Program, oracle: JavaPaimon, paths: Mapping[str, Path]) -> None:
        self.program = program
        self.oracle = oracle
        self.paths = paths
        # Latest snapshot of each side before the first step and after each one.
        self.snapshots: dict[str, list[int]] = {side: [0] for side in SIDES}
        # Options of the tables before the first step and after each one.
        self.options: list[dict[str, str]] = [dict(program.options)]

    # ── running ─────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        for number, step in enumerate(self.program.steps):
            where = f"step {number} ({_short(step)})"
            outcomes = self._outcomes(where, step)
            if len({outcome is None for outcome in outcomes.values()}) > 1:
                raise Difference(f"{where}: refused by some only: {outcomes}")
            is_done = outcomes["java"] is None
            self.options.append(options_after(self.options[-1], step.get("changes", []) if is_done else []))
            for side in SIDES:
                self.snapshots[side].append(_latest_id(self.paths[side]))
            if not self.program.looks_back and is_done:
                self._same_rows(where, NOW, number=number)

    def _outcomes(self, where: str, step: Step) -> dict[str, str | None]:
        """Why each side refused the step; None: it was done."""
        if step["op"] == "switch":
            is_keyed = bool(self.program.primary_keys)
            after = options_after(self.options[-1], step["changes"])
            unready = {
                side: why_not_ready(self.oracle, path, self._written_with(side), after, is_keyed=is_keyed)
                for side, path in self.paths.items()
            }
            if any(unready.values()):
                self._refuses(where, step, {side for side, reason in unready.items() if reason and side != "java"})
                return {**dict.fromkeys(SIDES, "not ready")}
        return {side: self._do(side, step) for side in SIDES}

    def _written_with(self, side: str) -> Mapping[str, str]:
        """Options of the table when its latest snapshot was made: it can return to their modes at any time."""
        ids = self.snapshots[side]
        return self.options[max((step for step in range(1, len(ids)) if ids[step] > ids[step - 1]), default=0)]

    def _refuses(self, where: str, step: Step, sides: Collection[str]) -> None:
        for side in sides:
            try:
                _here(open_table(str(self.paths[side])), step)
            except InvalidArgumentError:
                continue
            raise Difference(f"{where}: taken in table {side!r}, where it changes what rows are read")

    def _do(self, side: str, step: Step) -> str | None:
        """Why the step was refused; None: it was done."""
        by = {"java": "java", "here": "here", "turns": step["by"]}[side]
        path = self.paths[side]
        if by == "java":
            try:
                _in_java(self.oracle, path, step)
            except Exception as error:  # noqa: BLE001 - the class lives in the reference
                return f"{type(error).__name__}: {error}"
            return None
        try:
            _here(open_table(str(path)), step)
        except PaimonError as error:
            return f"{type(error).__name__}: {error}"
        return None

    # ── comparing ───────────────────────────────────────────────────────────────────────────────

    def compare(self) -> None:
        if max(self.snapshots["java"]) == 0:
            return
        self._same_rows("at the end", NOW)
        if self.program.looks_back:
            self._look_back()
        self._same_changelogs()
        self._same_differences()
        if self.program.picks_are_certain and self._ever_marks:
            self._same_vectors()
        for side in ("here", "turns"):
            problems = self.oracle.problems(self.paths[side])
            if problems:
                raise Difference(f"Java finds in table {side!r}: {problems}")

    def _look_back(self) -> None:
        now = self.options[-1]
        for number, step in enumerate(self.program.steps):
            where = f"looking back at step {number} ({_short(step)})"
            ids = {side: self.snapshots[side][number + 1] for side in SIDES}
            if step["op"] == "tag":
                states = {side: {"tag": step["tag"]} for side in SIDES}
            elif ids["java"] > self.snapshots["java"][number]:
                states = {side: {"snapshot": ids[side]} for side in SIDES}
            else:
                continue
            if len({self._schema_at(side, ids[side]) for side in SIDES}) > 1:
                # Sizes of files decide whether a compaction had work to do; without, the snapshot before it was read,
                # which has the columns of its own time.
                continue
            then = self.options[number + 1]
            options = as_then(then, now)
            if options:
                self._same_rows(
                    f"{where}, as then",
                    {side: {**at, "options": options} for side, at in states.items()},
                    number=number,
                )
            # Versions that add up, or that vectors leave out, are not read in the mode of today.
            if marks(then) == marks(now) and not (options and adds_up(now)):
                self._same_rows(where, states, number=number)

    def _schema_at(self, side: str, snapshot: int) -> int | None:
        if snapshot == 0:
            return None
        return int(json.loads((self.paths[side] / "snapshot" / f"snapshot-{snapshot}").read_text("utf-8"))["schemaId"])

    def _same_rows(self, where: str, at: Mapping[str, Mapping[str, Any]], *, number: int | None = None) -> None:
        """Held against what Java reads in its own table: all that can be read, or in step `number` two of them."""
        expected, _ = _tried(self._java_rows, "java", at["java"])
        others = [("Java reads", self._java_rows, "here"), ("Java reads", self._java_rows, "turns")]
        others += [("we read", self._our_rows, "turns"), ("we read", self._our_rows, "java")]
        chosen = others if number is None else [others[number % len(others)]]
        for who, read, side in [("we read", self._our_rows, "here"), *chosen]:
            self._same_or_refused(f"{where}: {who} table {side!r}", _tried(read, side, at[side]), expected)

    def _same_or_refused(self, where: str, found: _Tried, expected: _Read | None) -> None:
        rows, refused = found
        if (rows is None) != (expected is None):
            raise Difference(
                f"{where}: {f'refused: {refused}' if rows is None else 'refused by Java in its own table'}"
            )
        if rows is not None and expected is not None:
            self._same(where, rows, expected)

    def _java_rows(self, side: str, at: Mapping[str, Any]) -> _Read:
        answer = self.oracle.call("read", table=str(self.paths[side]), **at)
        return [column["name"] for column in answer["columns"]], answer["rows"]

    def _our_rows(self, side: str, at: Mapping[str, Any], system: str = "") -> _Read:
        asked = dict(at)
        of_read = asked.pop("scan_options", None)
        table = open_table(f"{self.paths[side]}{system}", options=asked.pop("options", None))
        found = table.to_arrow(**asked, options=of_read)
        return found.column_names, rows_of(found)

    def _same(self, where: str, found: _Read, expected: _Read) -> None:
        if found[0] != expected[0]:
            raise Difference(f"{where}: columns {found[0]}, in Java {expected[0]}")
        names = expected[0]
        sides = [self._plain(rows, names) for _, rows in (found, expected)]
        problem = difference(*sides, names=names)
        if problem:
            raise Difference(f"{where}: {problem}")

    def _plain(self, rows: Sequence[Row], names: Sequence[str], first: int = 0) -> list[Row]:
        """Rows with the elements of unordered columns sorted; `first` is the index of the first column."""
        indices = [first + index for index, name in enumerate(names) if name in self.program.unordered]
        plain = [_numbers(row) for row in rows]
        for row in plain:
            for index in indices:
                row[index] = row[index] and sorted(row[index], key=text_of)
        return plain

    def _same_changelogs(self) -> None:
        """As a reader sees them for whom the producer is the one of today, or any that there was."""
        now = producer_of(self.options[-1])
        for producer in sorted({producer_of(options) for options in self.options}):
            options = {} if producer == now else {PRODUCER: producer}
            if producer == "full-compaction" and marks(self.options[-1]):
                options[VECTORS] = "false"
            changes = {side: self._changes(side, options) for side in SIDES}
            for number, step in enumerate(self.program.steps):
                for side in ("here", "turns"):
                    found = difference(changes[side][number], changes["java"][number])
                    if found:
                        where = f"changelog of step {number} ({_short(step)}) in table {side!r}"
                        raise Difference(f"{where}, with producer {producer}: {found}")

    def _changes(self, side: str, options: Mapping[str, str]) -> list[list[Row]]:
        """Rows of the changelog that each step has written."""
        answer = self.oracle.call("changelog", table=str(self.paths[side]), options=dict(options))
        names = [column["name"] for column in answer.get("columns", [])]
        by_snapshot = {one["snapshot"]: one["rows"] for one in answer["changes"]}
        return [
            self._plain([row for one in range(before + 1, after + 1) for row in by_snapshot.get(one, [])], names, 1)
            for before, after in pairwise(self.snapshots[side])
        ]

    @property
    def _ever_marks(self) -> bool:
        return any(map(marks, self.options))

    def _same_differences(self) -> None:
        """What changed from the first step's snapshot to the last one's, as each engine reads it from each table."""
        if self.oracle.release != "0.9":
            # Java 2 gives the rows of each snapshot unmerged, or those of changelogs where there are any.
            return
        if self._ever_marks:
            # Java 0.9 plans such splits without the list of their vectors, and ends with an index out of bounds.
            return
        if "partial-update.remove-record-on-delete" in self.program.options:
            # In Java 0.9 a delete that is merged with anything older in between leaves no record.
            return
        last = {side: self.snapshots[side][-1] for side in SIDES}
        first = {side: self.snapshots[side][1] for side in SIDES}
        for side in SIDES:
            if not 0 < first[side] < last[side]:
                continue
            ids = (first[side], last[side])
            if _numbers_begin_again(self.paths[side], ids):
                # Java 0.9 takes the order of the numbers, so that what was written last may be missing.
                continue
            self._same_reads(f"changes from {ids} of table {side!r}", side, ids, "")
            self._same_reads(f"audit log from {ids} of table {side!r}", side, ids, "audit_log")

    def _same_reads(self, where: str, side: str, ids: tuple[int, int], system: str) -> None:
        """Both engines give the same rows, or neither can merge the changes."""
        more = {"system": system} if system else {}
        theirs, _ = _tried(self._java_rows, side, {"incremental": f"{ids[0]},{ids[1]}", **more})
        mark = f"${system}" if system else ""
        # What Java chooses itself; where rows wait for a compaction, and are in no changelog, states are compared here.
        producer = open_table(str(self.paths[side])).schema.table_options.changelog_producer
        mode = {"incremental-between-scan-mode": "delta" if producer == "none" else "changelog"}
        at = {"incremental": ids, "scan_options": mode}
        ours = _tried(lambda name, at: self._our_rows(name, at, mark), side, at)
        if theirs is not None and "is NOT NULL, but merging" in ours[1] and self._has_wrong_nulls(theirs):
            return
        if theirs is None and self._collects_parts:
            return
        self._same_or_refused(where, (self._with_keys(ours[0]), ours[1]), self._with_keys(theirs))

    @property
    def _collects_parts(self) -> bool:
        """Whether elements with parts are collected as often as they come: Java 0.9 cannot take them back."""
        options = self.program.options
        return any(
            options.get(f"fields.{name}.aggregate-function") == "collect"
            and options.get(f"fields.{name}.distinct") != "true"
            and kind in (LINES, ARRAYS_OF_ARRAYS)
            for name, kind in self.program.fields
        )

    def _has_wrong_nulls(self, found: _Read) -> bool:
        """Whether Java gives a null in a column that has none: a changelog that is merged retracts what is not there."""
        whole = {name for name, kind in self.program.fields if kind.endswith("NOT NULL")}
        indices = [index for index, name in enumerate(found[0]) if name in whole]
        return any(row[index] is None for row in found[1] for index in indices)

    def _with_keys(self, found: _Read | None) -> _Read | None:
        """The rows without what Java 0.9 gives no key: what partial-update makes of retracts alone.

        Where it ignores them these are whole rows; with sequence groups the values count, so that no row has its key.
        """
        options = self.program.options
        if found is None or options.get("merge-engine") != "partial-update":
            return found
        indices = [index for index, name in enumerate(found[0]) if name in self.program.primary_keys]
        if any(key.endswith(".sequence-group") for key in options):
            return found[0], [
                [None if index in indices else value for index, value in enumerate(row)] for row in found[1]
            ]
        return found[0], [row for row in found[1] if any(row[index] is not None for index in indices)]

    def _same_vectors(self) -> None:
        for number, step in enumerate(self.program.steps):
            counts = {side: self._deleted(side, self.snapshots[side][number + 1]) for side in SIDES}
            if step.get("full") and counts["java"] and not counts["here"]:
                # Java 0.9 leaves vectors at the highest level where there is nothing else; here, as in newer releases,
                # a full compaction clears all.
                return
            if len(set(counts.values())) > 1:
                raise Difference(f"deleted positions after step {number} ({_short(step)}): {counts}")

    def _deleted(self, side: str, snapshot: int) -> int:
        if snapshot == 0:
            return 0
        entries = self.oracle.call("index", table=str(self.paths[side]), snapshot=snapshot)["entries"]
        return sum(vector["cardinality"] for entry in entries for vector in entry.get("vectors", {}).values())


def _numbers_begin_again(path: Path, ids: tuple[int, int]) -> bool:
    handle = load_table(str(path), EnvConfig(str(path)))
    if not handle.schema.primary_keys:
        return False
    with suppress(PaimonError):
        return any(
            len({*split.epochs.values()}) > 1 for split in plan_changes(handle, Changes(*ids, "delta"), RowSelection())
        )
    return False


def _tried(read: Callable[[str, Mapping[str, Any]], _Read], side: str, at: Mapping[str, Any]) -> _Tried:
    try:
        return read(side, at), ""
    except Exception as error:
        if not isinstance(error, PaimonError) and type(error).__name__ != "OracleError":
            raise
        return None, str(error)


def _numbers(row: Row) -> Row:
    """The row with numbers with a point in one form: Java prints some with more digits."""
    return [float(value) if isinstance(value, float) else value for value in row]


def _short(step: Step) -> str:
    return step["op"] if step["op"] == "write" else json.dumps({k: v for k, v in step.items() if k != "by"})


def _latest_id(path: Path) -> int:
    folder = path / "snapshot"
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return max((int(name[9:]) for name in names if name.startswith("snapshot-")), default=0)


# ── steps in Java ───────────────────────────────────────────────────────────────────────────────


def _in_java(oracle: JavaPaimon, path: Path, step: Step) -> None:
    call: Callable[..., Any] = oracle.call
    table = str(path)
    match step["op"]:
        case "write":
            # Compactions are steps of their own: Java's writers would add theirs.
            more = {"overwrite": step["overwrite"]} if "overwrite" in step else {}
            call("write", table=table, rows=step["rows"], kinds=True, options={"write-only": "true"}, **more)
        case "compact":
            call("compact", table=table, full=step["full"])
        case "alter" | "switch":
            call("alter", table=table, changes=step["changes"])
            if NULL_KEYS in open_table(table).schema.options:
                allow_null_keys(path)
        case "tag":
            call("create_tag", table=table, tag=step["tag"])
        case "delete":
            call("delete_positions", table=table, positions=_positions(oracle, path, step))
        case other:
            raise AssertionError(other)


def _positions(oracle: JavaPaimon, path: Path, step: Step) -> dict[str, list[int]]:
    """Positions of the rows to delete, by data file."""
    found = {}
    for file in oracle.call("files", table=str(path))["files"]:
        (stored,) = path.rglob(file["file"])
        column = _column(stored, step["column"])
        indices = [index for index, value in enumerate(column) if value == step["value"]]
        if indices:
            found[stored.name] = indices
    return found


def _column(stored: Path, name: str) -> list[Any]:
    match stored.suffix:
        case ".parquet":
            return list(pq.read_table(stored, columns=[name])[name].to_pylist())
        case ".orc":
            return list(orc.read_table(stored, columns=[name])[name].to_pylist())
        case _:
            with stored.open("rb") as file:
                return [row[name] for row in fastavro.reader(file)]  # type: ignore[index,call-overload]


# ── steps here ──────────────────────────────────────────────────────────────────────────────────


def _here(table: Table, step: Step) -> None:
    match step["op"]:
        case "write":
            kinds = [row[0] for row in step["rows"]]
            rows = table_of([row[1:] for row in step["rows"]], table.arrow_schema)
            plain = not table.schema.primary_keys or table.schema.table_options.rowkind_field is not None
            table.write(rows, row_kinds=None if plain else kinds, overwrite=step.get("overwrite"))
        case "compact":
            table.compact(full=step["full"], **step.get("limits", {}))
        case "alter" | "switch":
            table.alter([_ours(change) for change in step["changes"]])
        case "tag":
            table.create_tag(step["tag"])
        case "delete":
            table.delete(f"{step['column']} = {step['value']}")
        case other:
            raise AssertionError(other)


def _ours(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change of the reference's form in ours."""
    ours = {**change, "change": CHANGES[change["change"]]}
    match change["change"]:
        case "set_option":
            ours = {"change": "set_option", "key": change["name"], "value": change["value"]}
        case "remove_option":
            ours = {"change": "remove_option", "key": change["name"]}
        case "nullable":
            ours = {"change": ours["change"], "name": change["name"], "nullable": change["value"]}
        case _:
            pass
    return ours
