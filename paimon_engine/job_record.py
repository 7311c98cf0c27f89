"""The record of a job: a folder by which the process that carries it out and those that wait for it communicate.

    beat.json      its progress, written again every few seconds: without a change for long it is treated as lost
    starter.json   the same of the process that starts it, for as long as that waits for it to begin
    outcome.json   the result or the failure, written once
    stop.json      a request to stop
    output.txt     the last lines of what it printed; written last, where there is a starter

The folder is in a store that both reach; it contains no secret, and no process has to parse another one's log.
Times of different machines are compared for one purpose only: records that nothing has written to for a month, and for
which nobody waits any more, are deleted (`forget_abandoned`).
"""

from __future__ import annotations

import json
import random
import re
import socket
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Final

from paimon_engine import errors
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError, kind_of, masked
from paimon_engine.jobs import JobResult
from paimon_engine.storage import Storage
from paimon_engine.units import DAY_MS

RECORD_VERSION: Final = 1
_FAILED: Final = "failed"
_CAUSES_MAX: Final = 5
_CAUSE_LINES: Final = 12
_TRACE_CHARACTERS: Final = 20_000
_HOST: Final = socket.gethostname()
_FILES: Final = frozenset({"beat.json", "starter.json", "outcome.json", "stop.json", "output.txt"})
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ABANDONED_MS: Final = 30 * DAY_MS


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job failed: the class of the error and its message, those of its causes, and where it arose."""

    kind: str
    message: str
    causes: tuple[str, ...] = ()
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> JobFailure:
        """The failure that describes an exception, with what is hidden in this process masked."""
        causes = tuple(_without_stack(masked(f"{type(cause).__name__}: {cause}")) for cause in _causes(error))
        trace = masked("".join(traceback.format_exception(error)))[-_TRACE_CHARACTERS:]
        return cls(kind_of(error), masked(str(error)), causes, trace)

    @property
    def error_type(self) -> type[PaimonError] | None:
        """The class of the error, if it is one of the engine's."""
        found = getattr(errors, self.kind, None)
        return found if isinstance(found, type) and issubclass(found, PaimonError) else None

    def __str__(self) -> str:
        """Class, message and causes; where it arose, if it is none of the engine's errors."""
        lines = [f"{self.kind}: {self.message}", *(f"caused by {cause}" for cause in self.causes)]
        return "\n".join([*lines, *([self.trace] if self.error_type is None and self.trace else [])])

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps({"version": RECORD_VERSION, "status": _FAILED, "error": asdict(self)})


def _causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(_CAUSES_MAX):
        found = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if found is None:
            return
        yield found
        error = found


def _without_stack(text: str) -> str:
    """The first lines of a message; those of Java then list where each error arose."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "..."))]
    return "\n".join(lines[:_CAUSE_LINES])


def outcome_of(text: str) -> JobResult | JobFailure:
    """What the JSON text of an outcome says.

    Raises: InvalidArgumentError.
    """
    try:
        value = json.loads(text)
        if value.get("status") != _FAILED or "error" not in value:
            return JobResult.from_json(text)
        error = value["error"]
        causes = tuple(map(str, error.get("causes", ())))
        return JobFailure(str(error["kind"]), str(error["message"]), causes, str(error.get("trace", "")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"no valid outcome of a job: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat: `number` counts up. `total` of 0 says that the number of steps is not known."""

    number: int
    host: str
    pid: int
    stage: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class JobRecord:
    """The record in a folder of a store."""

    folder: str
    store: EnvConfig

    @classmethod
    def at(cls, folder: str, options: Mapping[str, str] | None = None) -> JobRecord:
        """The record in a folder; `options` are those of its store, with secrets in clear."""
        return cls(folder, EnvConfig(folder, options or {}))

    @cached_property
    def _storage(self) -> Storage:
        return self.store.build().storage

    def _path(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"

    def beat(self, beat: Beat, *, of_starter: bool = False) -> None:
        """Writes a heartbeat. Raises: StorageError."""
        name = "starter.json" if of_starter else "beat.json"
        self._storage.overwrite(self._path(name), json.dumps(asdict(beat)).encode())

    def prepare(self) -> None:
        """Creates the record, so that `siblings` list it, before the process begins. Raises: StorageError."""
        self.beat(Beat(0, _HOST, 0), of_starter=True)

    def beats(self) -> tuple[Beat | None, Beat | None]:
        """The newest heartbeats of the process and of its starter. Raises: StorageError."""
        return self._beat("beat.json"), self._beat("starter.json")

    def _beat(self, name: str) -> Beat | None:
        text = self._read(name)
        try:
            value = {} if text is None else json.loads(text)
            return Beat(**{item.name: value[item.name] for item in fields(Beat)}) if value else None
        except (ValueError, KeyError, TypeError, RecursionError):
            # An incomplete file, or one of another writer: not a heartbeat.
            return None

    def end(self, outcome: JobResult | JobFailure) -> bool:
        """Writes the outcome; False if there is one already. Raises: StorageError."""
        return self._storage.create(self._path("outcome.json"), outcome.to_json().encode())

    def outcome(self) -> JobResult | JobFailure | None:
        """How the job ended; None as long as it has not. Raises: StorageError, InvalidArgumentError."""
        text = self._read("outcome.json")
        return None if text is None else outcome_of(text)

    def ask_to_stop(self) -> None:
        """Requests the process to stop, which it sees within seconds. Raises: StorageError."""
        self._storage.overwrite(self._path("stop.json"), json.dumps({"host": _HOST}).encode())

    def is_asked_to_stop(self) -> bool:
        """Whether it was requested to stop. Raises: StorageError."""
        return self._storage.exists(self._path("stop.json"))

    def keep_output(self, text: str) -> None:
        """Keeps what the process printed last. Raises: StorageError."""
        self._storage.overwrite(self._path("output.txt"), masked(text).encode())

    def is_closed(self) -> bool:
        """Whether nothing more will be written, unless the starter died. Raises: StorageError."""
        is_started = self._read("starter.json") is not None
        return self._read("outcome.json") is not None and (not is_started or self._read("output.txt") is not None)

    def output(self) -> str:
        """What the process printed last. Raises: StorageError."""
        return self._read("output.txt") or ""

    def _read(self, name: str) -> str | None:
        try:
            return self._storage.read(self._path(name)).decode(errors="replace")
        except NotFoundError:
            return None

    def siblings(self) -> list[JobRecord]:
        """The records in the same folder: those of the same work. Raises: StorageError."""
        above = self.folder.rstrip("/").rpartition("/")[0]
        found = self._storage.list(above)
        return [JobRecord(info.path.rstrip("/"), self.store) for info in found if info.is_dir]

    def delete(self) -> None:
        """Deletes the record, and the folders above it that only contained records. Raises: StorageError."""
        self._storage.delete_tree(self.folder)
        above = self.folder.rstrip("/")
        for _ in range(2):
            above = above.rpartition("/")[0]
            self._storage.delete_dir(above)


def forget_abandoned(root: str, options: Mapping[str, str] | None = None, *, at_most: int = 10) -> int:
    """Deletes records below `root` that were abandoned: nothing was written to them for 30 days; gives how many.

    Records are `<root>/<work>/<attempt>/<file>`. A work whose folder contains anything else, of whatever age, is not
    touched. At most so many works are looked at, chosen at random, so that the start of a job costs few requests.

    Raises: StorageError.
    """
    env = EnvConfig(root, options or {}).build()
    old_ms = env.clock() - _ABANDONED_MS
    works = [info.path.rstrip("/") for info in env.storage.list(root.rstrip("/")) if info.is_dir]
    ours = [work for work in works if _ID.fullmatch(work.rpartition("/")[2])]
    count = 0
    for work in random.sample(ours, min(at_most, len(ours))):
        files = list(env.storage.walk(work))
        if files and all(_is_of_record(work, info.path) and 0 < info.modified_ms < old_ms for info in files):
            env.storage.delete([info.path for info in files])
            folders = {info.path.rpartition("/")[0] for info in files}
            for folder in [*sorted(folders), work]:
                env.storage.delete_dir(folder)
            count += len(folders)
    return count


def _is_of_record(work: str, path: str) -> bool:
    attempt, _, name = path.removeprefix(f"{work}/").partition("/")
    return _ID.fullmatch(attempt) is not None and name in _FILES


def is_local(folder: str) -> bool:
    """Whether a folder is on a disk of this machine."""
    return "://" not in folder or folder.startswith("file://")
