"""All benchmarks with rivals in one command: `python -m tests.bench [PART ...] [--write docs/benchmarks.md]`.

    python -m tests.bench                      # everything, within an hour on two quiet cores
    python -m tests.bench read write           # parts of it
    python -m tests.bench scale --large        # tables of up to 1,000,000 files, too
    python -m tests.bench --rust PYTHON        # an interpreter that has pypaimon-rust

Each figure is that of a separate process. Contenders take turns, so that they meet the same load; CPU seconds of
the step alone count, medians with least and most. Reads run twice in their process and the second run counts: the first
one loads what Arrow loads late. Rivals are pyarrow, which decodes or encodes the bytes and does nothing else, the libraries alone that the engine calls,
and pypaimon-rust if an interpreter has it: the one given, or the one that the tests use (`.cache/pypaimon`).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from paimon_engine import open_table
from tests.bench import compaction, lineitems, plots
from tests.bench.contenders import A_ROW, STEPS
from tests.bench.scale import __main__ as scaling
from tests.support import paimon2
from tests.support.pypaimon import HOME
from tests.support.reference import reference_part

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
RUST_CLIENT: Final = Path(__file__).with_name("rust_client.py")
OURS: Final = "paimon-engine"
MERGED_PLAINLY: Final = "Arrow and NumPy, no checks"
LIBRARIES: Final = "Arrow and fastavro alone"
CLASSES_MADE: Final = 95
"""Dataclasses that a process makes which reads a row."""
TWO_PROCESSES: Final = "two processes, a bucket each"
ROUNDS_OF_READS_MIN: Final = 7
"""They take so little time that one round in which the machine is disturbed counts for much."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run: CPU and wall seconds, and the peak of its process in MB, where it is known."""

    cpu_s: float
    wall_s: float
    peak_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Some work by one contender, and how often it was measured; `note` is for the last column.

    Where it depends on the size of a table, `growing` names the work without its `size`.
    """

    work: str
    who: str
    costs: Sequence[Cost]
    note: str = ""
    growing: str = ""
    size: int = 0

    @property
    def cpu_s(self) -> float:
        return median(cost.cpu_s for cost in self.costs)

    @property
    def wall_s(self) -> float:
        return median(cost.wall_s for cost in self.costs)

    def cells(self) -> tuple[str, ...]:
        cpus = [cost.cpu_s for cost in self.costs]
        spread = f"{_seconds(min(cpus))} to {_seconds(max(cpus))}" if len(cpus) > 1 else ""
        peaks = [cost.peak_mb for cost in self.costs if cost.peak_mb is not None]
        peak = f"{median(peaks):,.0f}" if peaks else ""
        return self.work, self.who, _seconds(self.cpu_s), spread, _seconds(self.wall_s), peak, self.note


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


@dataclass(frozen=True, slots=True)
class Setting:
    """How much is measured, where, and with which rivals."""

    rows: int
    rounds: int
    large: bool
    rust: str | None
    groups: Sequence[str]
    """Of `scale`."""


# ── processes ───────────────────────────────────────────────────────────────────────────────────


def _printed(command: Sequence[str]) -> Cost:
    """What a process prints about its step."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _whole(compiled: str, command: Sequence[str]) -> Cost:
    """What a process costs from its start to its end, with compiled modules, as an installed program has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    wall = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**environment, "PYTHONPYCACHEPREFIX": compiled})
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - wall)


def _command(who: str, step: str, warehouse: str, rust: str | None) -> list[str]:
    if who == "rust":
        assert rust is not None
        return [rust, "-P", str(RUST_CLIENT), step, warehouse]
    return [sys.executable, "-m", "tests.bench.contenders", who, step, warehouse]


def _in_turn(work: str, acts: dict[str, Callable[[], Cost]], rounds: int) -> Iterator[Line]:
    """Lines of all contenders, the engine's first, measured in turn; the others compared with it."""
    costs: dict[str, list[Cost]] = {who: [] for who in acts}
    for _ in range(rounds):
        for who, act in acts.items():
            costs[who].append(act())
    lines = [Line(work, who, found) for who, found in costs.items()]
    yield lines[0]
    for line in lines[1:]:
        yield Line(line.work, line.who, line.costs, f"ours {lines[0].cpu_s / line.cpu_s:.2f} ×")


# ── parts ───────────────────────────────────────────────────────────────────────────────────────

_NAMES: Final = {
    "ours": OURS,
    "pyarrow": "pyarrow, no merge",
    "plain": MERGED_PLAINLY,
    "libraries": LIBRARIES,
    "rust": "pypaimon-rust",
}


def _contend(setting: Setting, warehouse: str, steps: Sequence[str]) -> Iterator[Line]:
    for step in steps:
        rivals = [who for who, steps in STEPS.items() if step in steps] + (["rust"] if setting.rust else [])
        acts = {_NAMES[who]: partial(_printed, _command(who, step, warehouse, setting.rust)) for who in rivals}
        rounds = setting.rounds if "write" in step else max(setting.rounds, ROUNDS_OF_READS_MIN)
        yield from _in_turn(step, acts, rounds)


def reads(setting: Setting) -> Iterator[Line]:
    """Reads of a compacted table, of one with eight runs, and of one with thirty runs of ten rows; held, or streamed."""
    with tempfile.TemporaryDirectory() as warehouse:
        lineitems.make(warehouse, setting.rows)
        yield from _contend(
            setting, warehouse, [step for step in STEPS["ours"] if "write" not in step and step != A_ROW]
        )


def writes(setting: Setting) -> Iterator[Line]:
    """Writes of rows in memory, with their commit."""
    with tempfile.TemporaryDirectory() as warehouse:
        lineitems.make(warehouse, setting.rows)
        yield from _contend(setting, warehouse, [step for step in STEPS["ours"] if "write" in step])


def starts(setting: Setting) -> Iterator[Line]:
    """Whole processes, which find their modules compiled."""
    with tempfile.TemporaryDirectory() as warehouse, tempfile.TemporaryDirectory() as compiled:
        lineitems.make(warehouse, 100)
        program = "from paimon_engine import open_table; import sys; open_table(sys.argv[1]).to_arrow()"
        imports = "import pyarrow, pyarrow.compute, pyarrow.parquet, pyarrow.orc, numpy"
        made = 'make_dataclass("C", ("a", "b", "c", "d"), frozen=True, slots=True)'
        classes = f"from dataclasses import make_dataclass\nfor _ in range({CLASSES_MADE}): {made}"
        commands = {
            OURS: [sys.executable, "-c", program, f"{warehouse}/db.db/one"],
            "Arrow's imports": [sys.executable, "-c", imports],
            "Arrow's imports, fastavro, dataclasses": [sys.executable, "-c", f"{imports}, fastavro\n{classes}"],
            **({_NAMES["rust"]: _command("rust", A_ROW, warehouse, setting.rust)} if setting.rust else {}),
        }
        acts = {who: partial(_whole, compiled, command) for who, command in commands.items()}
        for act in acts.values():
            act()
        yield from _in_turn("open a table and read a row", acts, setting.rounds)
        help_of = [str(Path(sys.executable).with_name("paimon-engine")), "--help"]
        _whole(compiled, help_of)
        yield from _in_turn("`paimon-engine --help`", {OURS: partial(_whole, compiled, help_of)}, setting.rounds)


_CASES: Final = ("deduplicate", "partial-update", "aggregation", "text-key", "random-texts", "wide-rows")
_WITH_PLAIN_MERGE: Final = ("deduplicate", "random-texts")
"""Cases that `plain_merge` can do, too."""
_MORE_WORK: Final = ("lookup-changelog", "deletion-vectors")


def compactions(setting: Setting) -> Iterator[Line]:
    """Full compactions of eight runs on one thread, compared with reading and writing the same bytes, and with a merge
    by Arrow and NumPy alone that checks nothing; those with a changelog or deletion vectors, and of a plain process,
    with the usual ones; and of Java's files with Java 0.9 and Java 2.0."""
    for name in _CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = compaction.make_table(Path(folder), name, setting.rows, lineitems.RUNS)
            left = compaction.run_apart("merged read", path).rows
            steps = {OURS: ("compaction", 0), "read and write, no merge": ("floor", left)}
            if name in _WITH_PLAIN_MERGE:
                steps[MERGED_PLAINLY] = compaction.PLAIN_MERGE, 0
            acts = {who: partial(_compaction, *step, path) for who, step in steps.items()}
            yield from _in_turn(f"compaction, {name}", acts, setting.rounds)
    with tempfile.TemporaryDirectory() as folder:
        usual = compaction.make_table(Path(folder), "deduplicate", setting.rows, lineitems.RUNS)
        for name in _MORE_WORK:
            path = compaction.make_table(Path(folder), name, setting.rows, lineitems.RUNS)
            acts = {OURS: partial(_compaction, "compaction", 0, path)}
            acts["without it"] = partial(_compaction, "compaction", 0, usual)
            yield from _in_turn(f"compaction, {name}", acts, setting.rounds)
        plain = partial(_compaction, "compaction", 0, usual, plain=True)
        acts = {"plain process": plain, "process of the command line": partial(_compaction, "compaction", 0, usual)}
        yield from _in_turn("compaction, deduplicate", acts, setting.rounds)
    yield from _beside_java(setting)


def _beside_java(setting: Setting) -> Iterator[Line]:
    """On the same files, both warm, where the reference in Java is found."""
    if reference_part("oracle") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        first = compaction.java(Path(folder) / "first", setting.rows, lineitems.RUNS)
        open_table(str(first.path)).rollback(snapshot=lineitems.RUNS)
        java = partial(_java, Path(folder) / "again", setting.rows)
        acts = {
            OURS: partial(_compaction, compaction.WARM, 0, first.path),
            "Java 0.9, warm": java,
            f"Java {paimon2.VERSION}, warm": partial(_paimon2, first.path),
            MERGED_PLAINLY: partial(_compaction, compaction.PLAIN_MERGE, 0, first.path),
        }
        yield from _in_turn("compaction, Java's files", acts, setting.rounds)


def _java(folder: Path, rows: int) -> Cost:
    done = compaction.java(folder, rows, lineitems.RUNS)
    shutil.rmtree(folder)
    return Cost(done.cpu_seconds, done.seconds)


def _paimon2(path: Path) -> Cost:
    done = compaction.paimon2(path)
    return Cost(done.cpu_seconds, done.seconds)


def _compaction(step: str, number: int, path: Path, *, plain: bool = False) -> Cost:
    cost = compaction.run_apart(step, path, number, plain=plain)
    return Cost(cost.cpu_seconds, cost.seconds, cost.peak_mb)


def _at_once(step: str, paths: Sequence[Path]) -> Cost:
    """Compactions in as many processes, which share nothing but the machine."""
    with ThreadPoolExecutor(len(paths)) as pool:
        costs = list(pool.map(partial(_compaction, step, 0), paths))
    wall_s, peak_mb = max(one.wall_s for one in costs), sum(one.peak_mb or 0 for one in costs)
    return Cost(sum(one.cpu_s for one in costs), wall_s, peak_mb)


def cores(setting: Setting) -> Iterator[Line]:
    """Full compactions of eight runs on one thread and on two. How much faster two are shows in wall seconds, and only
    where nothing else runs; the CPU seconds of parts by ranges of keys show what splitting costs. What two processes
    that share nothing do in the same time is the most that the machine's two cores give."""
    for name in ("deduplicate", "four-buckets"):
        with tempfile.TemporaryDirectory() as folder:
            path = compaction.make_table(Path(folder), name, setting.rows, lineitems.RUNS)
            steps = {"one thread": ("compaction", 0), "two threads": (compaction.TWO_THREADS, 0)}
            if name == "deduplicate":
                steps["two threads, two parts"] = compaction.TWO_THREADS, 2
                steps["one thread, four parts"] = compaction.IN_PARTS, 4
            acts = {who: partial(_compaction, *step, path) for who, step in steps.items()}
            if name == "deduplicate":
                acts[TWO_PROCESSES] = partial(_at_once, "compaction", [path, path])
            one, *others = _in_turn(f"compaction, {name}", acts, setting.rounds)
            yield one
            for line in others:
                faster, dearer = one.wall_s / line.wall_s, line.cpu_s / one.cpu_s
                note = f"{faster:.2f} × as fast, {dearer:.2f} × the CPU"
                if line.who == TWO_PROCESSES:
                    note = (
                        f"{2 * faster:.2f} × as much in the same time, {dearer / 2:.2f} × the CPU: the machine's limit"
                    )
                yield replace(line, note=note)


def scales(setting: Setting) -> Iterator[Line]:
    """Work on metadata, by the size of the table, with the exponent from one size to the next."""
    for name in setting.groups:
        group = scaling.GROUPS[name]
        for one in scaling.measured(name, (*group.sizes, *(group.large if setting.large else ()))):
            note = "" if one.exponent is None else f"exponent {one.exponent:.2f}"
            work = f"{one.step}, {one.size:,} {one.what}, {one.group}"
            growing = f"{one.step}, {one.group}"
            yield Line(work, OURS, [Cost(one.cpu_s, one.wall_s, one.peak_mb)], note, growing, one.size)
    if setting.rust is not None:
        for name in {"append", "keyed", "partitions"} & {*setting.groups}:
            with tempfile.TemporaryDirectory() as warehouse:
                scaling.GROUPS[name].make(warehouse, 100_000)
                steps = ["list partitions"] if name == "partitions" else ["plan", "plan of one of 100 partitions"]
                for step in steps:
                    own = [sys.executable, "-m", "tests.bench.scale", "--step", name, step, warehouse, "100000"]
                    theirs = _command("rust", step, warehouse, setting.rust)
                    acts = {OURS: partial(_printed, own), _NAMES["rust"]: partial(_printed, theirs)}
                    yield from _in_turn(f"{step}, 100,000 files, {name}", acts, setting.rounds)


PARTS: Final = {
    "start": starts,
    "read": reads,
    "write": writes,
    "compaction": compactions,
    "cores": cores,
    "scale": scales,
}


# ── report ──────────────────────────────────────────────────────────────────────────────────────


def _rust(given: str | None) -> str | None:
    """An interpreter with pypaimon-rust; None where there is none."""
    for python in (given, str(HOME / "venv" / "bin" / "python")):
        if python is not None and Path(python).exists():
            done = subprocess.run([python, "-P", "-c", "import pypaimon_rust"], capture_output=True, check=False)
            if done.returncode == 0:
                return python
    if given is not None:
        raise SystemExit(f"{given} has no pypaimon-rust")
    return None


def _machine(setting: Setting) -> str:
    """Where and with what was measured."""
    model = re.findall(r"model name\s+: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("pyarrow", "numpy")]
    if setting.rust is not None:
        ask = "import importlib.metadata as m; print(m.version('pypaimon-rust'))"
        done = subprocess.run([setting.rust, "-P", "-c", ask], capture_output=True, text=True, check=True)
        versions.append(f"pypaimon-rust {done.stdout.strip()}")
    load = os.getloadavg()[0]
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores ({model[0] if model else 'unknown'}), "
        f"{memory:.0f} GiB, load {load:.1f} at first, Python {platform.python_version()}, {', '.join(versions)}; "
        f"{setting.rows:,} rows, {setting.rounds} rounds."
    )


_TITLES: Final = ("Work", "By", "CPU s", "least to most", "wall s", "peak MB", "compared")


def _table(lines: Sequence[Line]) -> str:
    rows = [_TITLES, tuple("---" for _ in _TITLES), *(line.cells() for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _figures(lines: Sequence[Line], folder: Path, name: str) -> list[str]:
    """Draws what a part has measured beside rivals, and by size, into the folder; the Markdown that shows it."""
    compared: dict[str, dict[str, float]] = {}
    growing: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        if line.growing:
            growing.setdefault(line.growing, []).append((line.size, line.cpu_s))
        else:
            compared.setdefault(line.work, {})[line.who] = line.cpu_s
    shown = []
    if beside := {work: costs for work, costs in compared.items() if len(costs) > 1}:
        plots.draw_comparison(beside, folder / f"{name}.svg")
        shown.append(f"![CPU time of each contender](_static/{name}.svg)")
    if growing:
        plots.draw_growth(growing, folder / f"{name}-by-size.svg")
        shown.append(f"![CPU time by the size of the table](_static/{name}-by-size.svg)")
    return shown


def main() -> None:
    """Prints a line for each measurement, and the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of reads, writes and compactions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="the largest tables of `scale`, too")
    parser.add_argument("--groups", nargs="+", choices=scaling.GROUPS, default=[*scaling.GROUPS], help="of `scale`")
    parser.add_argument("--rust", help="an interpreter that has pypaimon-rust")
    parser.add_argument(
        "--write", type=Path, help=f"a page whose part between `{BEGIN}` and `{END}` becomes the report, with figures"
    )
    given = parser.parse_args()
    setting = Setting(given.rows, given.rounds, given.large, _rust(given.rust), given.groups)
    report = [_machine(setting)]
    print(report[0], "" if setting.rust else "No interpreter has pypaimon-rust.", sep="\n", flush=True)
    for name in given.parts or PARTS:
        lines = []
        for line in PARTS[name](setting):
            print(" | ".join(line.cells()), flush=True)
            lines.append(line)
        report += [f"## {name.capitalize()}", inspect.cleandoc(PARTS[name].__doc__ or "")]
        if given.write is not None:
            report += _figures(lines, given.write.parent / "_static", f"benchmarks-{name}")
        report.append(_table(lines))
    text = "\n\n".join(report)
    if given.write is not None:
        before, _, rest = given.write.read_text(encoding="utf-8").partition(BEGIN)
        behind = rest.partition(END)[2]
        given.write.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{behind}", encoding="utf-8")


if __name__ == "__main__":
    main()
