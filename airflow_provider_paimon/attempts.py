"""Which attempts of a task are one piece of work: those commit under one name, and so once.

A *retry* follows an attempt whose success Airflow does not know of: it continues with the same work. A task that
is *cleared* after it had succeeded must do its work again: a user wants that. Airflow runs both as the next try of
the same task instance; so each attempt notes in the task's state store under which name it commits, and, once Airflow
knows of its success, that it succeeded. The note does not expire; it is deleted with the DAG run.

If the note is missing on a later try, the work is done once: it is not known then whether it is a retry or a clear.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Final

from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]
from airflow.sdk.configuration import conf

from paimon_engine.errors import InvalidArgumentError

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "airflow-provider-paimon")
NOTE: Final = "paimon_commit"
"""Key in the task's state store."""
_TRIES_KNOWN: Final = 20
ON_CLEAR: Final = ("rerun", "once")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The name under which an attempt commits; and that of the run whose work it does again, if it does so."""

    commit_user: str
    earlier_user: str | None = None
    had_succeeded: bool = False
    """Whether an earlier attempt at this very work succeeded, as far as Airflow knows."""


def commit_user_of(
    context: Mapping[str, Any],
    idempotency_key: str | None = None,
    again: Mapping[str, Any] | None = None,
    work: Mapping[str, Any] | None = None,
) -> str:
    """The name under which a task commits: the same in every attempt, so that a repeated one commits once.

    `again` distinguishes work that is repeated on purpose from the work before. With a key a mapped task is recognised
    by its `work`, which says what it does: another run may have it at another map index. Work that is `{}`, because the
    task has no arguments, is recognised by the map index.

    Raises: InvalidArgumentError for a mapped task with a key whose work is not known, or has no text of its own.
    """
    instance = context["ti"]
    index = getattr(instance, "map_index", -1)
    parts: list[Any] = [instance.dag_id, instance.task_id, instance.run_id, index]
    if idempotency_key is not None:
        parts[2] = {"idempotency_key": idempotency_key}
        if index >= 0 and work != {}:
            if work is None:
                raise InvalidArgumentError(
                    f"idempotency_key={idempotency_key!r} does not say which part of a mapped task this is, whose map "
                    "index may be another one in the next run; give a commit_user that names the part"
                )
            parts[3] = {"work": _plain(work)}
    if again is not None:
        parts.append({"again": dict(again)})
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))


def _plain(value: Any) -> Any:
    """A value as JSON that is the same in every process. Raises: InvalidArgumentError for one that has no such form."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=json.dumps)
    if isinstance(value, Mapping):
        pairs = [[_plain(name), _plain(item)] for name, item in value.items()]
        return {"pairs": sorted(pairs, key=json.dumps)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise InvalidArgumentError(
        f"a mapped task with an idempotency_key is recognised by its arguments, and {type(value).__name__} has no text "
        "that is the same in every run; give texts, numbers, dates, or lists and maps of them"
    )


def names_of_task(
    context: Mapping[str, Any], task_id: str, *, is_mapped: bool, idempotency_key: str | None
) -> Iterator[str]:
    """The names under which another task of this run commits in its first tries, without its key and with it.

    Airflow does not say how often a task was tried, and in how many parts a mapped one runs: these are all that can be,
    but for mapped tasks with a key.
    """
    instance = context["ti"]
    indices = range(conf.getint("core", "max_map_length", fallback=1024)) if is_mapped else (-1,)
    run = {"run_id": instance.run_id}
    again = (None, run, *({**run, "try": number} for number in range(2, _TRIES_KNOWN + 1)))
    for index in indices:
        task = SimpleNamespace(dag_id=instance.dag_id, task_id=task_id, run_id=instance.run_id, map_index=index)
        for key in {None, idempotency_key} if index < 0 else {None}:
            yield from (commit_user_of({"ti": task}, key, one) for one in again)


def begin_attempt(
    context: Mapping[str, Any],
    idempotency_key: str | None = None,
    on_clear: str | None = None,
    *,
    force_rerun: bool = False,
    work: Mapping[str, Any] | None = None,
) -> Attempt:
    """Finds out what this attempt is, and notes it; `work` is as for `commit_user_of`.

    Raises: InvalidArgumentError as there, and for another `on_clear`; what the state store raises, since a retry and a
    clear could not be distinguished then.
    """
    if on_clear not in (None, *ON_CLEAR):
        raise InvalidArgumentError(f"on_clear={on_clear!r}; choose one of {', '.join(ON_CLEAR)}")
    once = on_clear == "once" or (on_clear is None and idempotency_key is not None)
    store = context.get("task_state_store")
    before = None if store is None else _note(store.get(NOTE))
    counts = _counts_of_clears(context)
    again, earlier = _again(context, before, once=once, forced=force_rerun, counts=counts)
    if before is None and again is not None:
        earlier = commit_user_of(context, idempotency_key, work=work)
    user = commit_user_of(context, idempotency_key, again, work)
    if store is not None:
        note = {"user": user, "again": again, "earlier": earlier, "forced": force_rerun}
        store.set(NOTE, {**note, **counts, "succeeded": False}, retention=NEVER_EXPIRE)
    return Attempt(user, earlier, before is not None and before["succeeded"] and before["user"] == user)


def note_success(context: Mapping[str, Any]) -> None:
    """To be called once Airflow has recorded that the task succeeded."""
    store = context.get("task_state_store")
    note = None if store is None else _note(store.get(NOTE))
    if store is not None and note is not None:
        store.set(NOTE, {**note, "succeeded": True}, retention=NEVER_EXPIRE)


def _again(
    context: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    *,
    once: bool,
    forced: bool,
    counts: Mapping[str, int | None],
) -> tuple[dict[str, Any] | None, str | None]:
    """What distinguishes this attempt's work from the first of that name (None: it is that); whose work it repeats."""
    instance = context["ti"]
    tries = getattr(instance, "try_number", 1)
    fresh = {"run_id": instance.run_id, "try": tries}
    if before is None:
        if "task_state_store" not in context:
            # Tries cannot be distinguished here: those of one DAG run are one piece of work.
            return ({"run_id": instance.run_id} if forced else None), None
        if forced or (tries > 1 and not once and conf.getboolean("state_store", "clear_on_success", fallback=False)):
            return fresh, None
        if tries > 1:
            logger.warning(
                "The task's state store has no note of earlier attempts, so it is not known whether this is a "
                "retry or was cleared: what they committed is not done again. To do it again, set force_rerun=True"
            )
        return None, None
    if forced and not before["forced"]:
        return fresh, before["user"]
    if before["succeeded"] and _was_cleared(before, counts) and (forced or not once):
        logger.info("The task had succeeded and was cleared: it does its work again")
        return fresh, before["user"]
    return before["again"], before["earlier"]


def _counts_of_clears(context: Mapping[str, Any]) -> dict[str, int | None]:
    """What Airflow counts up when it clears a task, and leaves as it is when it repeats one by itself.

    Each clear gives the task its retries once more. That of the run counts only clears that begin the run again.
    """
    return {
        "clears": getattr(context.get("dag_run"), "clear_number", None),
        "max_tries": getattr(context["ti"], "max_tries", None),
    }


def _was_cleared(before: Mapping[str, Any], now: Mapping[str, int | None]) -> bool:
    """Whether the counts allow it."""
    pairs = [(before.get(name), count) for name, count in now.items()]
    known = [pair for pair in pairs if None not in pair]
    return not known or any(earlier != later for earlier, later in known)


def _note(stored: Any) -> Mapping[str, Any] | None:
    """The note, if it is one."""
    names = {"user", "again", "earlier", "forced", "clears", "succeeded"}
    return stored if isinstance(stored, Mapping) and names <= stored.keys() else None
