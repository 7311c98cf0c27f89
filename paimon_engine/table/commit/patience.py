"""How long a commit goes on against others who commit first, and how long it waits between its tries.

By default a commit goes on for `DEFAULT_MINUTES`: what it holds is finished work, and a lost race is nobody's fault.
The table's options say otherwise, and win:

| option | what it does | where it is not set |
|---|---|---|
| `commit.max-retries` | gives up after so many retries | as many as the time allows |
| `commit.timeout` | gives up after so long | 10 minutes; no limit where `commit.max-retries` is set |
| `commit.min-retry-wait`, `commit.max-retry-wait` | if one is set: min·2^i, at most max, plus up to 20 % | see below |

With both limits set, the one that is reached first counts. Without options for the wait, it is random, up to
the time that the last try took; of those who race, who has lost more often waits less. A wait that grew with every loss
would let those with much to commit lose to those with little for ever.

Source: `RetryWaiter` of the Java library, for the waits that options ask for; Java's own defaults are 10 retries, no
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
"""How long a commit goes on where its table does not say."""
_FIRST_LOSERS_WAIT: Final = 4.0
"""Tries' lengths that who has lost once waits at most; who has lost that often, or more, waits one at most."""
_WAIT_MAX_S: Final = 2.0
_MIN_WAIT_MS: Final = 10
_MAX_WAIT_MS: Final = 10_000


@dataclass
class Patience:
    """The limits of one commit, which count from now on."""

    options: TableOptions
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float | None:
        """Time that all tries together may take; None is unbounded."""
        if self.options.commit_timeout_ms is not None:
            return self.options.commit_timeout_ms / 1000
        return DEFAULT_MINUTES * 60.0 if self.options.commit_max_retries is None else None

    def is_over(self, tries: int) -> bool:
        """Whether no other try may follow so many."""
        retries, seconds = self.options.commit_max_retries, self.seconds
        if retries is not None and tries > retries:
            return True
        return seconds is not None and time.monotonic() - self.begun >= seconds

    @property
    def way_out(self) -> str:
        """What to do about it, for messages."""
        limit = "commit.timeout" if self.options.commit_max_retries is None else "commit.max-retries"
        return f"raise '{limit}', or run again"

    def retrying(
        self, last_try_s: Callable[[], float], retry: Callable[[tenacity.RetryCallState], bool]
    ) -> tenacity.Retrying:
        """Tries for as long as `retry` asks for another one; `last_try_s` tells how long the last one took."""

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
