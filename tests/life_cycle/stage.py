"""Several actors on one store, one at a time: each can be stopped before any of its calls to the store, and continue later.

An actor is a thread that runs only while the stage waits for it, so that a history is the same in every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from paimon_engine import UnsupportedError

WAIT_S = 120


class Dismissed(BaseException):
    """The history is over: an actor that waits ends here, as a process that was killed."""


class Actor:
    """One call of `work`, as far as it was let run; `error` is what it raised, `result` what it gave.

    `made` are its calls of the store: the method and the path.
    """

    def __init__(self, stage: Stage, work: Callable[[], Any]) -> None:
        self.error: Exception | None = None
        self.result: Any = None
        self.is_done = False
        self.made: list[str] = []
        self._stage = stage
        self._work = work
        self._calls: int | None = 0
        self._is_dismissed = False
        self._may_go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go(self, calls: int | None) -> Actor:
        """Lets it make so many calls to the store (None: all to its end), and waits."""
        self._calls = calls
        if self._thread.ident is None:
            self._thread.start()
        self._may_go.release()
        assert self._stage.turn.acquire(timeout=WAIT_S), "an actor neither ends nor calls the store"
        return self

    def dismiss(self) -> None:
        """Ends it where it is; nothing of it reaches the store any more."""
        self._is_dismissed = True
        if not self.is_done:
            self.go(None)
        self._thread.join(WAIT_S)

    def before_call(self, method: str, path: Any) -> None:
        """Called by the store ahead of each of its calls, in the actor's thread."""
        if self._is_dismissed:
            raise Dismissed
        self.made.append(f"{method} {path}")
        if self._calls is None:
            return
        if self._calls == 0:
            self._stage.turn.release()
            self._may_go.acquire()
            if self._is_dismissed:
                raise Dismissed
        if self._calls is not None:
            self._calls -= 1

    def _run(self) -> None:
        self._may_go.acquire()
        self._stage.actors[threading.get_ident()] = self
        try:
            self.result = self._work()
        except Dismissed:
            pass
        except Exception as error:  # noqa: BLE001 - the machine judges it
            self.error = error
        finally:
            self.is_done = True
            del self._stage.actors[threading.get_ident()]
            self._stage.turn.release()


class Stage:
    """Who may act: `turn` is what the stage waits for while an actor runs."""

    def __init__(self) -> None:
        self.actors: dict[int, Actor] = {}
        self.turn = threading.Semaphore(0)

    def actor(self, work: Callable[[], Any]) -> Actor:
        """An actor that has not begun."""
        return Actor(self, work)

    def before_call(self, method: str, path: Any) -> None:
        """Stops the actor that calls, if its turn is over; other threads continue."""
        actor = self.actors.get(threading.get_ident())
        if actor is not None:
            actor.before_call(method, path)


class StagedStorage:
    """A store whose every call may be where its caller is stopped. Files of data and metadata never change.

    One without directories, as object stores, renames none.
    """

    def __init__(self, inner: Any, stage: Stage, *, has_directories: bool = True) -> None:
        self.inner = inner
        self._stage = stage
        self._has_directories = has_directories

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def staged(*arguments: Any, **named: Any) -> Any:
            self._stage.before_call(name, arguments[0] if arguments else named)
            return method(*arguments, **named)

        return staged

    def rename_dir(self, source: str, target: str) -> None:
        self._stage.before_call("rename_dir", source)
        if not self._has_directories:
            raise UnsupportedError(f"Cannot rename {source}: no directories")
        self.inner.rename_dir(source, target)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._stage.before_call("delete", path)
            self.inner.delete([path])

    def overwrite(self, path: str, data: bytes) -> None:
        self._stage.before_call("overwrite", path)
        location = path.rpartition("/")[0].rpartition("/")[2]
        assert location not in ("manifest", "index", "statistics"), f"{path} is overwritten"
        assert not location.startswith("bucket-"), f"{path} is overwritten"
        self.inner.overwrite(path, data)
