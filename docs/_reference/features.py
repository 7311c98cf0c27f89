"""The table of features, as tests have found them: `tests/interop/feature_table.py` writes and compares it."""

from __future__ import annotations

import json
from pathlib import Path

from _reference.markdown import table


def features() -> str:
    """What this engine does with each feature of Java Paimon 2.0."""
    lines = json.loads(Path(__file__).with_name("features.json").read_text(encoding="utf-8"))
    return table(
        ("A table of Java 2.0 with", "Read", "Written and compacted, then read by Java"),
        [(line["name"], line["read"], line["maintained"]) for line in lines],
    )
