"""The formats and codecs in a table's options: checked when it is created or altered, not when rows are written."""

from __future__ import annotations

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.codecs import codec_of, manifest_codec
from paimon_engine.options import TableOptions
from paimon_engine.supported import FILE_FORMATS


def check_codecs(options: TableOptions) -> None:
    """Raises InvalidArgumentError naming a codec that files of a format, or manifests, cannot have."""
    for file_format, codec in options.formats_and_codecs:
        if file_format in FILE_FORMATS:
            codec_of(file_format, options.codec_of(file_format, codec), options.codec_option(file_format, codec))
    manifest_codec(options.manifest_compression)


def has_codecs(options: TableOptions) -> bool:
    """Whether all these codecs can be written."""
    try:
        check_codecs(options)
    except InvalidArgumentError:
        return False
    return True
