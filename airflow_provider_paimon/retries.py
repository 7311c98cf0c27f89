"""Which errors are worth another try: `retry_policy=PAIMON_RETRY_POLICY` for any task that works on tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryDecision, RetryRule

from paimon_engine.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptTableError,
    InsufficientMemoryError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    SparkError,
    StorageError,
    UnsupportedError,
)

__all__ = ["PAIMON_RETRY_POLICY", "PaimonRetryPolicy"]


class PaimonRetryPolicy(ExceptionRetryPolicy):
    """Decides by the error of the engine, also where Airflow's exception only has it as its cause."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """The result of the first rule that matches the exception, or else the nearest of its causes."""
        for error in _with_causes(exception):
            found = super().evaluate(error, try_number, max_tries, context)
            if found.action is not RetryAction.DEFAULT:
                return found
        return RetryDecision(action=self.default)


def _with_causes(exception: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    error: BaseException | None = exception
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


PAIMON_RETRY_POLICY: Final = PaimonRetryPolicy(
    [
        RetryRule(
            [AlreadyExistsError, InvalidArgumentError, NotFoundError, UnsupportedError],
            RetryAction.FAIL,
            reason="another try meets the same error: correct the call, or name what exists",
        ),
        RetryRule(CorruptTableError, RetryAction.FAIL, reason="the table is damaged: verify and repair it"),
        RetryRule(
            ConflictError,
            RetryAction.RETRY,
            timedelta(seconds=30),
            reason="others changed the same files; they will be done soon",
        ),
        RetryRule(
            OutcomeUnknownError,
            RetryAction.RETRY,
            timedelta(minutes=1),
            reason="the store's answer was lost; the next try finds out whether the commit exists",
        ),
        RetryRule(StorageError, RetryAction.RETRY, timedelta(minutes=2), reason="the store failed"),
        RetryRule(
            InsufficientMemoryError,
            RetryAction.RETRY,
            timedelta(minutes=5),
            reason="the worker had too little memory; other tasks there may have ended by then",
        ),
        RetryRule(SparkError, RetryAction.RETRY, reason="Spark failed; nothing was committed"),
    ]
)
"""Retries conflicts and failures of the store or of Spark; fails at once where another try cannot help.

What no rule names is as the task's `retries` and `retry_delay` say; a rule without a delay takes the task's.
"""
