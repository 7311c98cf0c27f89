"""How long a commit is retried when other commits are faster, and how long it waits between its tries.

By default a commit tries for `DEFAULT_MINUTES`: the rows are already written, and only the last step is repeated.
Options of the table override this:

| option | what it does | default |
|---|---|---|
| `commit.max-retries` | fails after so many retries | as many as the time allows |
| `commit.timeout` | fails after so long | 10 minutes; no limit where `commit.max-retries` is set |
| `commit.min-retry-wait`, `commit.max-retry-wait` | if one is set: min·2^i, at most max, plus up to 20 % | see below |

If both limits are set, the first one that is reached counts. Without options for the wait, it is random: up to 4 times
the duration of the last try after the first lost race, up to once that duration after the fourth, and never more than
2 seconds. So a commit that has lost more often waits less. If waits grew instead, a large commit, whose tries take
long, would always lose to small ones.

Source: `RetryWaiter` of the Java library, for the waits that options set; Java's own defaults are 10 retries, no
timeout, 10 ms and 10 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import tenacity

from paimon_engine.options import TableOptions

DEFAULT_MINUTES: Final = 10
"""How long a commit tries if the table's options do not say."""
_FIRST_LOSERS_WAIT: Final = 4.0
"""Longest wait after the first lost race, as a multiple of the last try's duration; divided by the number of tries."""
_WAIT_MAX_S: Final = 2.0
_MIN_WAIT_MS: Final = 10
_MAX_WAIT_MS: Final = 10_000


@dataclass
class Patience:
    """The limits of one commit; its time starts when this object is created."""

    options: TableOptions
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float | None:
        """Time in seconds that all tries together may take; None is unbounded."""
        if self.options.commit_timeout_ms is not None:
            return self.options.commit_timeout_ms / 1000
        return DEFAULT_MINUTES * 60.0 if self.options.commit_max_retries is None else None

    def is_over(self, tries: int) -> bool:
        """Whether no other try may follow after this number of tries."""
        retries, seconds = self.options.commit_max_retries, self.seconds
        if retries is not None and tries > retries:
            return True
        return seconds is not None and time.monotonic() - self.begun >= seconds

    @property
    def remedy(self) -> str:
        """What users can do about it, for messages."""
        limit = "commit.timeout" if self.options.commit_max_retries is None else "commit.max-retries"
        return f"raise '{limit}', or run again"

    def retrying(
        self, last_try_s: Callable[[], float], retry: Callable[[tenacity.RetryCallState], bool]
    ) -> tenacity.Retrying:
        """A retry loop that repeats while `retry` says so; `last_try_s` gives the duration of the last try."""

        def wait(state: tenacity.RetryCallState) -> float:
            return wait_s(self.options, state, last_try_s())

        def stop(state: tenacity.RetryCallState) -> bool:
            return self.is_over(state.attempt_number)

        return tenacity.Retrying(stop=stop, wait=wait, retry=retry)


def wait_s(options: TableOptions, state: tenacity.RetryCallState, last_try_s: float) -> float:
    """Seconds to wait after a lost try."""
    least, most = options.commit_min_retry_wait_ms, options.commit_max_retry_wait_ms
    if least is not None or most is not None:
        first = (_MIN_WAIT_MS if least is None else least) / 1000
        grown = tenacity.wait_exponential(multiplier=first, max=(_MAX_WAIT_MS if most is None else most) / 1000)(state)
        return grown + tenacity.wait_random(0, grown / 5)(state)
    longest = last_try_s * max(1.0, _FIRST_LOSERS_WAIT / state.attempt_number)
    return tenacity.wait_random(0, min(longest, _WAIT_MAX_S))(state)
