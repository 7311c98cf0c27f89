"""Values of operators' own arguments after templates were rendered: Jinja renders everything to texts.

Fields of actions are read by the engine (`paimon_engine.specs`), as `templates` below says.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final

from airflow_provider_paimon import engine
from paimon_engine.errors import InvalidArgumentError

_NOTHING: Final = ("", "None", "null")


def templates() -> engine.Edge:
    """A time without a zone is UTC, as elsewhere in Airflow; `None` or an empty text means no value."""
    return engine.Edge(zone=UTC, is_rendered=True)


def flag(name: str, value: Any) -> bool:
    """A yes or no. Raises: InvalidArgumentError."""
    kind = engine.kind_of(bool)
    try:
        found = None if kind is None else kind.read(value, templates())
    except ValueError:
        found = None
    if not isinstance(found, bool):
        raise InvalidArgumentError(f"{name}={value!r} is not allowed; give true or false")
    return found


def text(value: Any) -> str | None:
    """A text; None where nothing was given."""
    return None if value is None or str(value).strip() in _NOTHING else str(value)
