"""The fuzzed decoders pass with the inputs that fuzzing has found, and with small changes of valid bytes.

Runs without atheris; `python -m tests.fuzz` looks for more.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, hold
from tests.support.golden import golden_folder

FINDS: dict[str, tuple[str, bytes]] = {
    "a schema that is not a text": ("schema", b"\xff\xfe{}"),
    "a schema nested too deeply": ("schema", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "a schema with a type that Arrow does not have": (
        "schema",
        b'{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":"DECIMAL(99, 2)"}],"highestFieldId":0,"options":{}}',
    ),
    "a schema whose column has no type": (
        "schema",
        b'{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":"INT(3)"}],"highestFieldId":0,"options":{}}',
    ),
    "a snapshot that is a list": ("snapshot", b"[1]"),
    "a snapshot in another encoding": ("snapshot", '{"id": 1}'.encode("utf-16")),
    "a tag with a time that no calendar has": (
        "tag",
        (
            b'{"id":1,"schemaId":0,"baseManifestList":"a","deltaManifestList":"b","commitUser":"u","commitIdentifier":1,'
            b'"commitKind":"APPEND","timeMillis":1,"tagCreateTime":[2024,13,1,0,0],"tagTimeRetained":1e400}'
        ),
    ),
    "statistics with columns that are a number": (
        "statistics",
        b'{"snapshotId":1,"schemaId":0,"colStats":7}',
    ),
    "an ORC file whose footer is not compressed with snappy": (
        "orc-stripes",
        base64.b64decode(
            "T1JDBQAA/4AHAABCAIAHAABAAcAFAABhYhkAAHgBAKlJG/8BIH6v/wkAAE4BKgp+AABNVAoGCAAQARgFCgYIARABGAYKBggCEAIF"
            "CAgBEAINGFADGA8KBggFEAMYBxIECAAQABIECAI2BgAQGgNHTVRvAAAKNQoECAJQAAoMCAESBggCEAIYAlABCg4IIgIICgFhEgFi"
            "GARQAAoPCAJQAErCCRj/v6jKmjogAPoAAIgBsBBuGgoIAxAAGCwgQigCCAMiFggMEgMBAgMaAWkaAXMaAXQgACgAMAAiCAgEIBEK"
            "BAcgEQoACQkKwDACSAFiBTIuMi4yOgQIAlAAOgwIARIGCAIQAhgCUAE6DggCIggKAWESAWIYBFAAOg8BJDBKCRj/v6jKmjogAEAA"
            "CIABEAIYgIAEIgIADCg6MAaC9AMDT1JDGA=="
        ),
    ),
    "an ORC file with two columns of one name": (
        "orc-stripes",
        base64.b64decode(
            "TytDgEIAgAo1CgQIAlAACgwIARIGCAIQAhgLUAEKDggCIggKAWESAWJ+BFAACg8IAlAASgkY/7+oypo6IAAQZxoKCAMQABgaIE0o"
            "AggDIhYIDBIDAQIDGgFpGgFpGgF0IAAoADAAIggIBCAAKAAwACIICA8gACgAMAAiCAgJIAAoADAAMAJIAWIFMi4yLjI6BAgCUAA6"
            "DAgBEgYIAhACGAJQAToOCAIiCAoBYRIBYhgEUAA6DwgCUABKCRj/v6jKmjogAEAACIgBEAAYgIAEIgIADCg3MAKC9AMDT1JDGA=="
        ),
    ),
    "an ORC file whose footer is not compressed with lz4": (
        "orc-stripes",
        base64.b64decode(
            "T1JDBQAA/4AHAABCAIAHAABAAcAFAABhYhkAAHgBAKlJG/8BIH6vAPoGAxgPCgYIBRADAlAACgwIARIGCAIQAhgCUAEKDggCIggKAWES"
            "AWIYBFAACg8IAlAASgkY/7+oypo6IAD2AAD1HRBuGgoIAxAAGCwgQigCCAMi/////xYIDBIDAQIDGgFpGgFzGgF0IAAoADAAIl0ICAQK"
            "ABUHCgASCQoA8CIwAkgBYgUyLjIuMjoECAJQADoMCAESBggCEAIYAlABOg4IAiIICgFhEgFiGARQADoPJADQSgkY/7+oypo6IABAAAh+"
            "EAQYgID13f3/DCg6MAaC9AMDT1JDFw=="
        ),
    ),
    "an ORC file whose chunks unpack to 57 TB": (
        "orc-stripes",
        base64.b64decode(
            "T1JDBQAA/4AHAAAXAAAAAAAAAAECCk1UbwAACjUKBAgCUAAKDAj////3/////wLtUAEKDggCIggKAWESAWIYBFAACg8IAlAASgkY/7+o"
            "ypo7IAD6AACIAbAQbhoKCAMQABgsIEIoAggDIhYIDBIDAQIDGgFpGgFzGgF0IAAoADIAIggIBCARCgQHIBEKAAkJCsAwAkgBYgUyLjIu"
            "MjoECAJQADoMCAESBggCEAIYAlABOg4IAiIICgFhUgFiGARQADoPASQwSgkY/7+oypo6IABAAAiAARACGICA/N39+gwoOjBdgvQDA09S"
            "Qxg="
        ),
    ),
    "a Parquet file with a codec that there is not": (
        "parquet-row-groups",
        base64.b64decode(
            "UEFSMRUAFc4MFfACFd3LiroBHBXIARUAFQYVBhwYCGMAAAAAAAAAGAgAAAAAAAAAABYAKAhjAAAAAAAAABgIAAAAAAAAAAAREQAAACi1"
            "L/1gJwJ1BQBCTScrALk2A/z//////////////18rXCiscKGwwoXCChcKK1xpmqZpmqZpWkoiU3+lSZEeNVqU6FChQYH+9NmT506dOXHe"
            "tFmT5kyZMWG+dNmS5UqVKVGeNFmS5EiRIUF+9NiR40aNGTFetFiR4kSJESE+dNiQ4UKFCREeNFiQ4ECBAQHu6ubi3trW0s7KxsK+uray"
            "rqqmop5+Tb2et/QvY5gQ8rsBABD0BwBapxQVBBUKFRwV+LXylgs8FQIVABIAACi1L/0gBSkAAAEAAABhFQAVFhUoFanW8/QNHBXIARUQ"
            "FQYVBhw2ACgBYRgBYRERAAAAKLUv/SALWQAAAwAAAMgBAQHIAQAVBBUAFRIVrqnnnAI8FQAVABIAACi1L/0gAAEAABUAFRAVIhX84Mw1"
            "ABgGc2NlaG1hFQwAFQQlAhgBawAVDCUCGAFzJQBMHAAAABUEJQIYAWQlChUEFRQsXBUEFRQAAAAVBCUCGAEAAAUAAAAAAAAAFQAVFhUo"
            "FanW8/QNHBXIARUQFQYVBhwYCAUAAAAAAAAAGAgFAAAAAAAAABYAKAgFAAAAAAAAABgIBQAAAAAAAAAREQAAACi1L/0gC1kAAAMAAADI"
            "AQEByAEAFQAVygcVShWMw5C9BBwVkAMVABUGFQYcGAQBAAAAGAQBAAAAFsgBKAQBAAAAGAQBAAAAEREAAAAotS/9YOUA3QAAgBoAAAAz"
            "qjMAAAAzuwEAAAADAIk7lQiiAoIiFQAVhAgVQBXwmZOvARwVyAEVABUGFQYcNgAoAWEYAWEREQAAACi1L/1gAgG1AABoAwAAAMgBAAIB"
            "AAAAYQIA7CiqCCtGFQAVvAYVPhWfgdG/DBwVyAEVABUGFQYcGAQBAAAAGAQBAAAAFgAoBAEAAAAYBAEAAAAREQAAACi1L/1gngCtAABg"
            "AwAAAMgBAAMBAAAAAgCJO6WFFSMVBBnMNQAYBnNjaGVtYRUMABUEJQIYAWsAFQwlAhgBcyUATBwAAAAVBCUCGAFkJQoVBBUULFwVBBUU"
            "AAAAFQQlAhgBdCUUTIwSHCwAAAAAADUCGAFsFQIVBkw8AAAANQQYBGxpc3QVAgAVAiUCGAdlbGVtZW50ADUCGAFtFQIVAkwsAAAANQQY"
            "CWtleV92YWx1ZRUEABUMJQAYA2tleSUATBwAAAAVAiUCGAV2YWx1ZQAWyAEZHBl8JgAcFQQZJQYAGRgBaxUMFsgBFt4NFoAEJgg8GAhj"
            "AAAAAAAAABgIAAAAAAAAAAAWACgIYwAAAAAAAAAYCAAAAAAAAAAAEREAGRwVABUAFQIAPCkGGSYAyAEAAAAmABwVDBk1AAYQGRgBcxUM"
            "FsgBFpABFrQBJswEJogEHDYAKAFhGAFhEREAGSwVBBUAFQIAFQAVEBUCADwWyAEZBhkmAMgBAAAAJgAcFQQZNQAGEBkYAWQVDBbIARZy"
            "FpYBJvYFJrwFHDbIAQAZLBUEFQAVAgAVABUQFQIAPCkGGSbIAQAAAAAmABwVBBk1AAYQGRgBdBUMFsgBFtoBFv4BJpwHJtIGHBgIBQAA"
            "AAAAAAAYCAUAAAAAAAAAFgAoCAUAAAAAAAAAGAgFAAAAAAAAABERABksFQQVABUCABUAFRAVAgA8KQYZJgDIAQAAACYAHBUCGSUGABk4"
            "AWwEbGlzdAdlbGVtZW50FQwWkAMWuggWugEm0Ag8GAQBAAAAGAQBAAAAFsgBKAQBAAAAGAQBAAAAEREAGRwVABUAFQIAPCkmyAHIARlG"
            "AADIAcgBAAAAJgAcFQwZJQYAGTgBbQlrZXlfdmFsdWUDa2V5FQwWyAEWzggWigEmigo8NgAoAWEYAWEREQAZHBUAFQAVAgA8FsgBGSbI"
            "AQAZNgAAyAEAAAAmABwVAhklBgAZOAFtCWtleV92YWx1ZQV2YWx1ZRU9FsgBFqoHFqwBJpQLPBgEAQAAABgEAQAAABYAKAQBAAAAGAQB"
            "AAAAEREAGRwVABUAFQIAPCkmyAEAGUYAAADIAQAAABbsKRbIASYIFrgMACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZ"
            "fBwAABwAABwAABwAABwAABwAABwAAABdAwAAUEFSMQ=="
        ),
    ),
    "an empty row": ("binary-row", b""),
    "a row whose slots are all zero": ("binary-row", bytes(24 + 8 * 13)),
    "a row whose slots are all ones": ("binary-row", bytes(24) + b"\xff" * 8 * 13),
    "a condition with half a number": ("where", b"d < 1.25e"),
    "a condition with a number that is too large": ("where", b"k = " + b"9" * 5000),
    "a condition with a number that no column can hold": ("where", b"k = " + b"9" * 50),
    "a condition with less than a text": ("where", b"s = -'a'"),
    "a condition with half of a map": ("where", b"k = MAP('a')"),
    "a condition nested too deeply": ("where", b"NOT (" * 2000 + b"k = 1" + b")" * 2000),
}
"""What it is; the decoder, and its bytes."""


@pytest.mark.parametrize(("decoder", "data"), FINDS.values(), ids=FINDS.keys())
def test_finds_are_refused_or_read(decoder: str, data: bytes) -> None:
    hold(decoder, data)


@pytest.mark.parametrize("decoder", TARGETS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_valid_bytes_with_a_small_change(decoder: str, data: st.DataObject) -> None:
    if golden_folder() is None:
        pytest.skip("the golden tables are missing; make them with python -m tests.golden.make")
    seed = data.draw(st.sampled_from(_seeds(decoder)))
    at = data.draw(st.integers(0, len(seed)))
    length = data.draw(st.integers(0, 4))
    put = data.draw(st.binary(max_size=4))

    hold(decoder, seed[:at] + put + seed[at + length :])


def test_valid_bytes_are_read() -> None:
    if golden_folder() is None:
        pytest.skip("the golden tables are missing; make them with python -m tests.golden.make")
    for decoder in TARGETS:
        for seed in _seeds(decoder):
            if decoder not in ("manifest-list", "hash-index", "file-index"):
                TARGETS[decoder].decode(seed)


_SEEDS: dict[str, list[bytes]] = {}


def _seeds(decoder: str) -> list[bytes]:
    if decoder not in _SEEDS:
        _SEEDS[decoder] = list(TARGETS[decoder].seeds())
    return _SEEDS[decoder]
