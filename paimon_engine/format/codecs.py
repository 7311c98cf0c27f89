"""Names of codecs in table options, per file format, and what the libraries that write these formats call them.

each supports `zstd`, `snappy` and `none`. XZ is not among those of Avro: its libraries know it, and files with it
are read, but Java Paimon comes without it, so that no such file is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.errors import InvalidArgumentError

AVRO_CODECS: Final[Mapping[str, str]] = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "bzip2": "bzip2",
    "none": "null",
    "null": "null",
}
"""Of manifests as well as of data files."""

_CODECS: Final[Mapping[str, Mapping[str, str]]] = {
    "parquet": {
        **{name: name for name in ("zstd", "snappy", "gzip", "lz4", "brotli", "none")},
        "lz4_raw": "lz4",
        "uncompressed": "none",
    },
    "orc": {
        "zstd": "ZSTD",
        "snappy": "SNAPPY",
        "lz4": "LZ4",
        "zlib": "ZLIB",
        "gzip": "ZLIB",
        "none": "UNCOMPRESSED",
        "uncompressed": "UNCOMPRESSED",
    },
    "avro": AVRO_CODECS,
}
_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    # Names of other formats, which tables have whose levels differ in format; Java 0.9 takes snappy for all of them.
    "avro": {
        "gzip": "deflate",
        "uncompressed": "null",
        **dict.fromkeys(("lz4", "lz4_raw", "zlib", "lzo", "brotli"), "snappy"),
    },
}


def codec_of(file_format: str, name: str, option: str = "file.compression") -> str:
    """What the library calls the codec of that name, in small letters, in files of the format.

    Raises: InvalidArgumentError naming the option that says so, and the codecs that the format has.
    """
    own = _CODECS[file_format]
    codec = own.get(name) or _ALIASES.get(file_format, {}).get(name)
    if codec is None:
        raise InvalidArgumentError(f"'{option}' = {name!r}: {file_format} files take one of {', '.join(sorted(own))}")
    return codec


def manifest_codec(name: str) -> str:
    """What the library calls the codec of that name in manifests.

    Raises: InvalidArgumentError naming the codecs that there are.
    """
    codec = AVRO_CODECS.get(name.lower())
    if codec is None:
        raise InvalidArgumentError(f"'manifest.compression' = {name!r}; choose one of {', '.join(sorted(AVRO_CODECS))}")
    return codec
