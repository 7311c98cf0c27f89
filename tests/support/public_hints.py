"""Annotations of what people call. The engine's modules do not load what only annotations name."""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import cache
from typing import Any

import paimon_engine
from paimon_engine.meta.schema_change import SchemaChange
from paimon_engine.specs import IfExists
from paimon_engine.table.removal.file_removal import DisposalWords


@cache
def _names() -> dict[str, Any]:
    public = {name: getattr(paimon_engine, name) for name in paimon_engine.__all__}
    return {**public, "SchemaChange": SchemaChange, "DisposalWords": DisposalWords, "IfExists": IfExists}


def hints_of(call: Callable[..., Any]) -> dict[str, Any]:
    """The types of a call's arguments and of what it returns, by name."""
    return typing.get_type_hints(call, localns=_names())
