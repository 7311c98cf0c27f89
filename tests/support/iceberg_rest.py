"""Iceberg's own REST catalog on the loopback interface, as Iceberg's tests have it; skipped where Maven or a JDK is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.support.java_jars import QUICK_START, compiled, jar, jars_of, java_server, require_compiler

ICEBERG = "org.apache.iceberg:iceberg-core:1.10.1"
TOKEN = "the-token-of-the-tests"
SOURCE = Path(__file__).parent / "java" / "IcebergRest.java"


def start_rest_catalog(folder: Path) -> Iterator[str]:
    """The address of a catalog without tables."""
    require_compiler()
    jars = f"{jar(f'{ICEBERG}:jar:tests')}:{jars_of(ICEBERG)}"
    classes = compiled((SOURCE,), jars)
    command = ["java", *QUICK_START, "-Xmx256m", "-cp", f"{classes}:{jars}", "org.apache.iceberg.rest.IcebergRest"]
    with java_server(command, folder, [TOKEN]) as port:
        yield f"http://127.0.0.1:{port}"
