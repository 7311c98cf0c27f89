"""What all tests share: a clean environment, Java's and pypaimon's readers, markers by fixture."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from paimon_engine.errors import hidden_within
from tests.support.cloud_stores import CloudServer, start_cloud_server
from tests.support.newest import NewestPaimon, start_newest
from tests.support.oracle import JavaPaimon, start_oracle
from tests.support.paimon2 import start_paimon2
from tests.support.parent_watch import end_with_parent
from tests.support.pypaimon import PyPaimon, start_pypaimon
from tests.support.reference import CACHE

MARKER_OF_FIXTURE = {"oracle": "java", "newest": "java", "pypaimon": "interop"}
_SECONDS_OF_MARKER = {"slow": 15.0, "airflow": 8.0, "spark": 3.0, "s3": 1.0, "java": 0.5, "interop": 0.5}
"""About how long a test takes."""
_ONCE_MORE = pytest.mark.flaky(reruns=1, only_rerun="^AirflowError")
"""Of dozens of runs of a real Airflow one may end badly by a race of Airflow itself. Other errors fail at once."""
FOREIGN = ("AIRFLOW_", "PYSPARK_", "SPARK_", "PAIMON_ENGINE_")


def _isolate() -> None:
    """Forgets what the user's shell says of Airflow and Spark, and keeps all that tests write in the project.

    Runs while this file is imported, because Airflow makes its home when it is imported first.
    """
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    CACHE.mkdir(exist_ok=True)
    home = tempfile.mkdtemp(prefix="airflow-", dir=CACHE)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ |= {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PIP_CACHE_DIR": str(CACHE / "pip"),
        # `make setup` has put classes there, with which Spark starts faster.
        "PAIMON_ENGINE_CACHE": str(CACHE / "engine"),
        # Servers of tests listen on this machine; no proxy leads to them.
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
    }


_isolate()


def _choose_inputs() -> None:
    """The same inputs of property tests in every run, however slow the machine; PAIMON_TEST_EXPLORE=1 tries new ones."""
    settings.register_profile("fixed", deadline=None, derandomize=True, database=None, max_examples=60)
    settings.register_profile("explore", deadline=None)
    if os.environ.get("PAIMON_TEST_EXPLORE") == "1":
        settings.load_profile("explore")
        return
    settings.load_profile("fixed")
    # Hypothesis also draws the texts and numbers that it finds in the modules imported so far, so that inputs would
    # depend on the tests that ran before, and on every line of the engine. No setting of its own turns this off.
    providers.HypothesisProvider._local_constants = property(lambda _: providers.Constants())  # type: ignore[assignment, attr-defined]


_choose_inputs()


def _leave_flushing_to_processes() -> None:
    """Files that tests write in their own process are not flushed to the disk, which would take a tenth of their time.

    What a process has written before it was killed is there without that, and tests cut no machine's power. Processes
    that tests start flush as always.
    """
    os.fsync = lambda _: None


_leave_flushing_to_processes()


def pytest_configure(config: pytest.Config) -> None:
    """What `make` has started, and each worker of that, ends with it; who starts pytest by hand may leave it alone."""
    if hasattr(config, "workerinput") or "MAKELEVEL" in os.environ:
        end_with_parent()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what takes minutes")
    parser.addoption("--install", action="store_true", help="also install the wheel into an empty environment")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("install") and not config.getoption("--install"):
            item.add_marker(pytest.mark.skip(reason="takes minutes and a package index: make test-install"))
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes, most by a real Airflow: make test-airflow"))
        if item.get_closest_marker("airflow"):
            item.add_marker(_ONCE_MORE)
        for fixture, marker in MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        _longest_files_first(items)


def _longest_files_first(items: list[pytest.Item]) -> None:
    """Orders files by about how long they take, so that no core waits at the end for a file that began last."""
    seconds: Counter[str] = Counter()
    for item in items:
        path = item.nodeid.partition("::")[0]
        seconds[path] += (
            max([_SECONDS_OF_MARKER.get(mark.name, 0.0) for mark in item.iter_markers()], default=0.0) + 0.1
        )
    order = {path: number for number, path in enumerate(sorted(seconds, key=lambda path: (-seconds[path], path)))}
    items.sort(key=lambda item: order[item.nodeid.partition("::")[0]])


@pytest.fixture(autouse=True, scope="module")
def _secrets_of_its_own() -> Iterator[None]:
    """What one module keeps secret, such as the word "secret", is shown in messages that another one compares."""
    with hidden_within():
        yield


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPaimon]:
    """Java Paimon 0.9; skips where the reference is missing."""
    yield from start_oracle(tmp_path_factory.mktemp("oracle") / "java.log")


@pytest.fixture(scope="session")
def cloud_server() -> Iterator[CloudServer]:
    """A server that clients of OSS, COS and OBS take for theirs; one per process, see `cloud_stores`."""
    yield from start_cloud_server()


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewestPaimon]:
    """Java Paimon of the newest release; skips where its jar cannot be fetched."""
    yield from start_newest(tmp_path_factory.mktemp("newest") / "java.log")


@pytest.fixture(scope="session")
def paimon2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPaimon]:
    """Java Paimon 2; skips where its jar cannot be fetched."""
    yield from start_paimon2(tmp_path_factory.mktemp("paimon2") / "java.log")


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PyPaimon]:
    """pypaimon in its own environment; skips where it cannot be installed."""
    yield from start_pypaimon(tmp_path_factory.mktemp("pypaimon"))
