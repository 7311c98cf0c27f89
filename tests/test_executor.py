"""The local executor: outcomes in task order, failures as values, groups whole and in order."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.arrow_memory import POOL, SETTINGS
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InsufficientMemoryError, InvalidArgumentError, NotFoundError, PaimonError
from paimon_engine.executor import ByGroup, Done, Failed, LocalExecutor, TaskRows, ahead, values
from paimon_engine.metastores.rest_client import RestNotFoundError
from paimon_engine.storage import MemoryStorage

CONFIG = EnvConfig("memory://executor")


def double_even(env: Env, task: int) -> int:
    if task % 2:
        raise NotFoundError(f"task {task}")
    return task * 2


def interrupt(env: Env, task: int) -> int:
    if task == 1:
        raise KeyboardInterrupt
    return task


def write_file(env: Env, task: str) -> str:
    env.storage.create(f"memory://executor/{task}", task.encode())
    return env.new_id()


def pool_of_arrow(env: Env, task: int) -> str:
    if task:
        # A run within a run ends first, and leaves the pool to the other.
        LocalExecutor().map(pool_of_arrow, [0], config=CONFIG)
    return str(pa.default_memory_pool().backend_name)


def group_of(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("g")


def rows_of(env: Env, group: int, batches) -> list[int]:
    if group == 3:
        raise ValueError("group three")
    return [value for batch in batches for value in batch.column("v").to_pylist()]


def first_batch_rows(env: Env, group: int, batches) -> int:
    return len(next(batches))


@pytest.mark.parametrize("parallelism", [1, 4])
def test_outcomes_are_in_task_order_and_a_failure_stops_no_other(parallelism):
    outcomes = LocalExecutor(parallelism).map(double_even, range(9), config=CONFIG)

    assert [outcome.value if isinstance(outcome, Done) else outcome.kind for outcome in outcomes] == [
        value for task in range(0, 9, 2) for value in ([task * 2, "NotFoundError"] if task < 8 else [16])
    ]
    assert "double_even" in outcomes[1].trace


@pytest.mark.parametrize("parallelism", [1, 4])
def test_progress_is_reported_in_the_callers_thread_up_to_all(parallelism):
    heard: list[tuple[int, int]] = []

    LocalExecutor(parallelism).map(
        double_even, range(6), config=CONFIG, on_done=lambda done: heard.append((done, threading.get_ident()))
    )

    assert heard[-1][0] == 6
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert {thread for _, thread in heard} == {threading.get_ident()}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_interrupt_passes_through(parallelism):
    with pytest.raises(KeyboardInterrupt):
        LocalExecutor(parallelism).map(interrupt, range(4), config=CONFIG)


def test_no_tasks_no_outcomes():
    assert LocalExecutor().map(double_even, [], config=CONFIG) == []


def test_tasks_get_the_env_of_the_configuration():
    LocalExecutor(2).map(write_file, ["a", "b"], config=CONFIG)

    assert CONFIG.build().storage.read("memory://executor/b") == b"b"
    assert CONFIG.build() is EnvConfig("memory://executor/other/table").build()


def test_an_env_given_to_the_executor_replaces_the_configuration():
    env = Env(MemoryStorage(), new_id=lambda: "fixed")

    outcomes = LocalExecutor(env=env).map(write_file, ["only-here"], config=CONFIG)

    assert outcomes == [Done("fixed")]
    assert env.storage.exists("memory://executor/only-here")
    assert not CONFIG.build().storage.exists("memory://executor/only-here")


def test_failures_become_the_errors_they_were():
    failed = Failed.of(NotFoundError("gone"))

    assert isinstance(failed.error(), NotFoundError)
    assert str(failed.error()) == "gone"
    assert type(Failed.of(RestNotFoundError("gone", "TABLE")).error()) is NotFoundError
    assert type(Failed.of(ValueError("odd")).error()) is PaimonError
    assert "ValueError: odd" in str(Failed.of(ValueError("odd")).error())
    assert pickle.loads(pickle.dumps(failed)) == failed
    with pytest.raises(NotFoundError):
        values([Done(1), failed])
    assert values([Done(1), Done(2)]) == [1, 2]


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed")])
def test_too_little_memory_has_one_name_for_all_libraries(error: Exception):
    found = Failed.of(error).error()

    assert type(found) is InsufficientMemoryError
    assert str(found) == f"a task had not enough memory: {str(error) or 'MemoryError'}"
    assert str(Failed.of(found).error()) == str(found)


def test_a_secret_comes_from_the_environment_where_the_env_is_built(monkeypatch):
    config = EnvConfig("memory://secret", secrets={"secret": "PAIMON_TEST_SECRET"})

    with pytest.raises(InvalidArgumentError, match="PAIMON_TEST_SECRET"):
        config.build()
    monkeypatch.setenv("PAIMON_TEST_SECRET", "hush")

    assert config.build() is config.build()
    assert "hush" not in repr(config)


def _table(rows: int = 20_000) -> pa.Table:
    groups = np.random.default_rng(7).integers(0, 5, rows).astype(np.int32)
    return pa.table({"g": groups, "v": np.arange(rows)})


@pytest.mark.parametrize("spill_bytes", [0, 20_000, 1 << 30])
def test_groups_arrive_complete_in_source_order_and_a_failing_group_stops_no_other(spill_bytes):
    table = _table()
    executor = LocalExecutor(2, spill_bytes=spill_bytes)

    outcomes = executor.shuffle(
        table.to_batches(max_chunksize=1000), split=ByGroup(group_of), run=rows_of, config=CONFIG
    )

    expected = [table.filter(pa.compute.field("g") == group)["v"].to_pylist() for group in range(5)]
    assert outcomes[3].kind == "ValueError"
    assert [outcomes[group].value for group in (0, 1, 2, 4)] == [expected[group] for group in (0, 1, 2, 4)]


def part_of(_env: Env, bounds: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    yield from _table().slice(bounds[0], bounds[1] - bounds[0]).to_batches(max_chunksize=1000)


def test_rows_that_tasks_read_are_shuffled_in_the_order_of_the_tasks():
    table = _table()
    source = TaskRows(part_of, [(0, 7000), (7000, 7000), (7000, 20_000)])

    outcomes = LocalExecutor(2).shuffle(source, split=ByGroup(group_of), run=rows_of, config=CONFIG)

    for group in (0, 1, 2, 4):
        assert outcomes[group].value == table.filter(pa.compute.field("g") == group)["v"].to_pylist()


def test_a_group_may_stop_reading_early():
    outcomes = LocalExecutor(2).shuffle(_table(), split=ByGroup(group_of), run=first_batch_rows, config=CONFIG)

    assert all(isinstance(outcome, Done) for outcome in outcomes)


def test_an_empty_source_has_no_groups():
    empty = _table(0)

    assert LocalExecutor().shuffle(empty, split=ByGroup(group_of), run=rows_of, config=CONFIG) == []
    assert LocalExecutor().shuffle(empty.to_reader(), split=ByGroup(group_of), run=rows_of, config=CONFIG) == []


def test_an_error_in_the_source_is_raised():
    def source():
        yield _table().to_batches()[0]
        raise NotFoundError("source file")

    with pytest.raises(NotFoundError, match="source file"):
        LocalExecutor().shuffle(source(), split=ByGroup(group_of), run=rows_of, config=CONFIG)


def test_tasks_take_memory_from_a_pool_that_keeps_it_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
):
    before = pa.default_memory_pool()
    other = pa.mimalloc_memory_pool()
    pa.set_memory_pool(other)
    try:
        monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)

        assert values(LocalExecutor(2).map(pool_of_arrow, [0, 1, 2], config=CONFIG)) == [POOL] * 3
        assert pa.default_memory_pool().backend_name == other.backend_name

        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", other.backend_name)

        assert values(LocalExecutor(2).map(pool_of_arrow, [0, 1], config=CONFIG)) == [other.backend_name] * 2
    finally:
        pa.set_memory_pool(before)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the addresses that the C library has taken from /proc")
def test_a_process_that_works_for_long_takes_no_more_addresses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    values(LocalExecutor(1).map(pool_of_arrow, [0], config=CONFIG))
    kept: list[list[pa.Array]] = []
    before = heap_bytes()

    for _ in range(40):
        values(LocalExecutor(1).map(pool_of_arrow, [0], config=CONFIG))
        kept.append([pa.array([number]) for number in range(50)])

    assert heap_bytes() - before < 100 << 20


def heap_bytes() -> int:
    """Addresses of the C library's heap, whether they are used or not; a large one cannot be forked."""
    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]")]
    ranges = [item[0].partition("-") for item in mapped]
    return sum(int(end, 16) - int(begin, 16) for begin, _, end in ranges)


@pytest.mark.parametrize(
    ("chosen", "before", "expected"), [(None, "", POOL), ("system", "", "system"), (None, "import pyarrow", "mimalloc")]
)
def test_a_process_of_our_own_takes_all_memory_from_that_pool(chosen: str | None, before: str, expected: str):
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    if chosen is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = chosen
    script = f"""
{before}
from typer.testing import CliRunner
from paimon_engine.cli import app
CliRunner().invoke(app, ["tables", "/nowhere"])
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)

    assert done.stdout.strip() == expected


def mebibytes(item: object) -> int:
    return 1 << 20


def test_items_are_made_by_a_thread_that_is_a_little_ahead():
    made: list[int] = []
    later = threading.Event()

    def items() -> Iterator[tuple[int, str]]:
        for number in range(200):
            made.append(number)
            if number == 20:
                later.set()
            yield number, threading.current_thread().name

    coming = ahead(items(), mebibytes)
    first = next(coming)
    assert later.wait(60)
    assert len(made) <= 3 * 8
    rest = list(coming)

    assert [number for number, _ in [first, *rest]] == made == list(range(200))
    assert threading.current_thread().name not in {name for _, name in [first, *rest]}


def test_an_item_that_fails_fails_at_the_latest_at_its_position():
    def items() -> Iterator[int]:
        yield from range(40)
        raise NotFoundError("item 40")

    coming = ahead(items(), mebibytes)

    assert [next(coming) for _ in range(32)] == list(range(32))
    with pytest.raises(NotFoundError, match="item 40"):
        list(coming)
    assert list(coming) == []


def test_a_reader_that_stops_early_closes_the_source():
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(1_000_000)
        finally:
            closed.set()

    coming = ahead(items(), mebibytes)
    next(coming)
    coming.close()

    assert closed.is_set()
    assert list(ahead(iter(range(3)), mebibytes)) == [0, 1, 2]
