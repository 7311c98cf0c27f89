"""The options that Java Paimon knows, and what the engine does with each: `known_options.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KNOWN: dict[str, Any] = json.loads(Path(__file__).with_name("known_options.json").read_text(encoding="utf-8"))
REFUSED: dict[str, dict[str, str]] = KNOWN["refused"]


HARMLESS = {option: reason for reason, options in KNOWN["harmless"].items() for option in options}


def named(option: str) -> str:
    return option.replace("<column>", "v").replace("#", "0")
