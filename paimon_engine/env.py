"""What a task needs from outside: storage, a clock and fresh ids.

Nothing with a connection is sent to workers. They get an `EnvConfig`, plain values that pickle, and build their own
`Env` once per process. With memory storage, a fake clock and seeded ids the whole engine is deterministic.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from paimon_engine.errors import InvalidArgumentError, hide
from paimon_engine.secrecy import check_address, hidden_values, shows_storage_option
from paimon_engine.storage import Storage, storage_for


def now_ms() -> int:
    """The current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """A fresh UUID as text."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Env:
    """The environment of a task: `clock` gives epoch milliseconds, `new_id` a fresh UUID as text.

    `reader_threads` is how many requests are in flight when this process reads many small files: enough to hide a
    store's latency. With 1 their order is fixed.
    """

    storage: Storage
    clock: Callable[[], int] = now_ms
    new_id: Callable[[], str] = new_id
    reader_threads: int = 8


class StorageSource(Protocol):
    """How a catalog changes the way to a store: a lock around creation, or credentials that must be renewed.

    A picklable plain value with a hash: workers build their own storage from it.
    """

    def storage(self, address: str, options: Mapping[str, str]) -> Storage:
        """The storage of that address."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class EnvConfig:
    """How to build an `Env` anywhere: an address, options, and where secrets are found.

    `secrets` maps an option to the name of the environment variable that holds its value, so that no secret is ever
    part of a job, a plan or a log. The variable must be set wherever tasks run.
    """

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)
    source: StorageSource | None = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for an address that contains a password."""
        check_address(self.address, "the store")

    def build(self) -> Env:
        """The `Env` of this configuration, one per process, store and options.

        Raises: InvalidArgumentError if the environment variable of a secret is not set.
        """
        options = {**self.options, **secret_values(self.secrets)}
        hide(hidden_values(options, shows_storage_option))
        return _build(os.getpid(), _store(self.address), tuple(sorted(options.items())), self.source)


@lru_cache(maxsize=64)
def _build(_process: int, store: str, options: tuple[tuple[str, str], ...], source: StorageSource | None) -> Env:
    # A forked process must not use the connections of its parent, hence the process in the key.
    return Env(storage_for(store, dict(options)) if source is None else source.storage(store, dict(options)))


def _store(address: str) -> str:
    """Scheme and authority of an address, which all tables of one store share."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def secret_values(secrets: Mapping[str, str]) -> dict[str, str]:
    """Values of the options whose values are kept in environment variables.

    Raises: InvalidArgumentError naming a variable that is not set.
    """
    return {option: _secret(option, variable) for option, variable in secrets.items()}


def _secret(option: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InvalidArgumentError(
            f"The option {option} is taken from the environment variable {variable}, which is not set in this process"
        )
    return value
