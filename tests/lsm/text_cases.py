"""Text cases: a layout of files and a question, and below a line of dashes the answer.

```
plan full target=100          what to compute, and options of the table
a L0 10 1..5 seq=0-4          name, level, size; keys; sequence numbers, rows=, deletes=, created= if they matter
----
merge a | b
```

Cases are separated by blank lines; a line with `#` tells what the case is about. `LSM_CASES=rewrite pytest tests/lsm`
writes the answers that the engine gives now; look at the difference before keeping it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.lsm.append import pack_small_files
from paimon_engine.lsm.levels import SortedRun, key_order, sorted_runs
from paimon_engine.lsm.parts import split_task
from paimon_engine.lsm.pick import NothingToDo, pick_full, pick_minor
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.lsm.sections import Section, arrived_in_order, sections
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema, new_schema
from paimon_engine.options import TableOptions
from paimon_engine.types import DataField, RowType, parse_atomic

CASES = Path(__file__).parent / "cases"
SHORT = {
    "trigger": "num-sorted-run.compaction-trigger",
    "levels": "num-levels",
    "ratio": "compaction.size-ratio",
    "amplification": "compaction.max-size-amplification-percent",
    "target": "target-file-size",
    "min-files": "compaction.min.file-num",
    "force-up": "compaction.force-up-level-0",
    "total-below": "compaction.total-size-threshold",
    "interval": "compaction.optimization-interval",
    "incremental-above": "compaction.incremental-size-threshold",
    "vectors": "deletion-vectors.enabled",
    "changelog": "changelog-producer",
    "engine": "merge-engine",
}
NOW_MS = 10_000
COLUMNS = RowType((DataField(0, "k", parse_atomic("BIGINT NOT NULL")), DataField(1, "v", parse_atomic("STRING"))))


@dataclass(frozen=True)
class Case:
    title: str
    question: str
    files: tuple[str, ...]
    answer: str

    def text(self, answer: str) -> str:
        return "\n".join([self.title, self.question, *self.files, "----", answer])


def read_cases(path: Path) -> list[Case]:
    cases = []
    for block in path.read_text().strip().split("\n\n"):
        above, answer = block.split("\n----\n") if "\n----\n" in block else (block.removesuffix("\n----"), "")
        title, question, *files = above.splitlines()
        cases.append(Case(title, question, tuple(files), answer))
    return cases


def check_file(path: Path) -> None:
    """Every case of the file answers as written."""
    cases = read_cases(path)
    answers = [answer_to(case) for case in cases]
    if os.environ.get("LSM_CASES") == "rewrite":
        path.write_text("\n\n".join(case.text(answer) for case, answer in zip(cases, answers, strict=True)) + "\n")
    for case, answer in zip(cases, answers, strict=True):
        assert answer == case.answer, f"{path.name}: {case.title}"


_KEY = [COLUMNS.fields[0].type]


def key(number: int) -> bytes:
    return encode_row([COLUMNS.fields[0].type], [number], reserve_null=True)


def parse_file(line: str) -> DataFile:
    name, level, size, *rest = line.split()
    named = dict(word.split("=") for word in rest if "=" in word)
    low, high = next((word.split("..") for word in rest if ".." in word), ("0", "0"))
    first, last = named.get("seq", "0-0").split("-")
    return DataFile(
        name=name,
        size_bytes=int(size),
        row_count=int(named.get("rows", 1)),
        min_key=key(int(low)),
        max_key=key(int(high)),
        min_sequence_number=int(first),
        max_sequence_number=int(last),
        level=int(level.removeprefix("L")),
        creation_time_ms=int(named["created"]) if "created" in named else None,
        delete_row_count=None if named.get("deletes") == "unknown" else int(named.get("deletes", 0)),
    )


def table(words: list[str], *, append: bool) -> TableSchema:
    options = {SHORT[name]: value for name, value in (word.split("=") for word in words if "=" in word)}
    return new_schema(
        COLUMNS,
        primary_keys=() if append else ("k",),
        partition_keys=(),
        options={"bucket": "-1" if append else "1", **options},
        comment=None,
        time_ms=0,
    )


# ── questions ───────────────────────────────────────────────────────────────────────────────────


def answer_to(case: Case) -> str:
    verb, *words = case.question.split()
    return QUESTIONS[verb](words, [parse_file(line) for line in case.files])


def _runs(words: list[str], files: list[DataFile]) -> str:
    return "\n".join(f"L{run.level}: {_names(run)}" for run in sorted_runs(files, key_order(COLUMNS.project(("k",)))))


def _sections(words: list[str], files: list[DataFile]) -> str:
    found = sections(files, key_order(COLUMNS.project(("k",))))
    return "\n".join(
        _section(section) + (" (in order of arrival)" if arrived_in_order(section) else "") for section in found
    )


def _pick(words: list[str], files: list[DataFile]) -> str:
    options = table(words, append=False).table_options
    # One file is one run here; sizes and levels are all that picking looks at.
    runs = [SortedRun(file.level, (file,)) for file in files]
    level_max = options.num_levels - 1
    pick = pick_full(runs, level_max) if "full" in words else pick_minor(runs, level_max, options, now_ms=NOW_MS)
    if isinstance(pick, NothingToDo):
        return f"nothing: {pick.reason}"
    assert list(pick.runs) == runs[: len(pick.runs)]
    return f"{' '.join(_names(run) for run in pick.runs)} -> L{pick.output_level}: {pick.reason}"


def _plan(words: list[str], files: list[DataFile]) -> str:
    task = plan_bucket(b"", 0, 1, files, schema=table(words, append=False), full="full" in words, now_ms=NOW_MS)
    if isinstance(task, NothingToDo):
        return f"nothing: {task.reason}"
    lines = [f"-> L{task.output_level}" + (", deletes dropped" if task.drop_deletes else "")]
    lines += [f"changes: {task.changes}"] if task.changes else []
    lines += [f"merge {' | '.join(map(_section, group))}" for group in task.rewrites]
    lines += [f"move {file.name}" for file in task.upgrades]
    return "\n".join(lines)


def _split(words: list[str], files: list[DataFile]) -> str:
    """`split full part=100`: the plan in parts of that size."""
    part_bytes = next(int(word.removeprefix("part=")) for word in words if word.startswith("part="))
    words = [word for word in words if not word.startswith("part=")]
    schema = table(words, append="append" in words)
    task = plan_bucket(b"", 0, 1, files, schema=schema, full="full" in words, now_ms=NOW_MS)
    assert isinstance(task, CompactTask)
    parts = split_task(task, schema, part_bytes)
    assert {f.name for part in parts for f in part.input_files} == {f.name for f in task.input_files}
    return "\n".join(map(_part, parts))


def _part(part: CompactTask) -> str:
    texts = [" | ".join(map(_section, group)) for group in part.rewrites]
    texts += [f"move {file.name}" for file in part.upgrades]
    bounds = [] if part.keys is None else [part.keys.low, part.keys.high]
    low_high = ["" if bound is None else str(decode_row(_KEY, bound)[0]) for bound in bounds]
    return " & ".join(texts) + (f" of ({'..'.join(low_high)}]" if bounds else "")


def _append(words: list[str], files: list[DataFile]) -> str:
    options: TableOptions = table(words, append=True).table_options
    packs = pack_small_files(files, options, in_order="ordered" in words, full="full" in words)
    if isinstance(packs, NothingToDo):
        return f"nothing: {packs.reason}"
    return "\n".join(" ".join(file.name for file in pack) for pack in packs)


def _names(run: SortedRun) -> str:
    return ",".join(file.name for file in run.files)


def _section(section: Section) -> str:
    return " + ".join(",".join(file.name for file in run) for run in section)


QUESTIONS: dict[str, Callable[[list[str], list[DataFile]], str]] = {
    "runs": _runs,
    "sections": _sections,
    "pick": _pick,
    "plan": _plan,
    "split": _split,
    "append": _append,
}
