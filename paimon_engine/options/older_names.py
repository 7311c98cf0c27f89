"""Older names of options, which mean the same as the newer ones.

Source: `withFallbackKeys` in `CoreOptions` of the Java library, from 0.9 to its newest sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.errors import InvalidArgumentError

OLDER_NAMES: Final[Mapping[str, str]] = {
    "blob.stored-descriptor-fields": "blob-descriptor-field",
    "changelog-producer.lookup-wait": "lookup-wait",
    "compaction.early-max.file-num": "compaction.max.file-num",
    "delete-file.thread-num": "file-operation.thread-num",
    "first-row.ignore-delete": "ignore-delete",
    "deduplicate.ignore-delete": "ignore-delete",
    "partial-update.ignore-delete": "ignore-delete",
    "log.scan": "scan.mode",
    "log.scan.timestamp-millis": "scan.timestamp-millis",
    "orc.write.batch-size": "write.batch-size",
    "parquet.variant.shreddingSchema": "variant.shreddingSchema",
    "sink.clustering.by-columns": "clustering.columns",
    "sink.clustering.strategy": "clustering.strategy",
    "snapshot.expire.clean-empty-directories": "snapshot.clean-empty-directories",
    "write.compaction-skip": "write-only",
}
"""The newer name by the older one. Of several older ones the first that is given counts, if the newer one is not."""


_OLDER: Final = frozenset(OLDER_NAMES)


def newest_name(name: str) -> str:
    """The name under which the option is looked up."""
    return OLDER_NAMES.get(name, name)


def with_newest_names(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options by their newest names; what is given under the newest name wins."""
    if _OLDER.isdisjoint(options):
        return options
    older = [name for name in OLDER_NAMES if name in options]
    renamed = {name: text for name, text in options.items() if name not in OLDER_NAMES}
    for name in older:
        renamed.setdefault(OLDER_NAMES[name], options[name])
    return renamed


def check_one_name(options: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError for a changed option under an older name that has no effect on these options."""
    effective = with_newest_names(options)
    for name in changed:
        if name in OLDER_NAMES and options[name] != effective[OLDER_NAMES[name]]:
            newest = OLDER_NAMES[name]
            raise InvalidArgumentError(
                f"'{name}' = '{options[name]}' is an older name of '{newest}', which is '{effective[newest]}' and "
                f"wins; set '{newest}' alone"
            )


def spelled(name: str) -> str:
    """The name for messages, with the newest one if it is an older one."""
    return f"'{name}', an older name of '{OLDER_NAMES[name]}'," if name in OLDER_NAMES else f"'{name}'"
