"""Options of directories outside the table that get its new data files.

Source: `CoreOptions`, `AbstractFileStore.createExternalPaths` of the Java library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.texts import OptionTexts

EXTERNAL_PATHS: Final = "data-file.external-paths"
STRATEGY: Final = "data-file.external-paths.strategy"
_SPECIFIC_FS: Final = "data-file.external-paths.specific-fs"
_WEIGHTS: Final = "data-file.external-paths.weights"
_WITH_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):/.*", re.IGNORECASE)
_STRATEGIES: Final = ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin")


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """Full paths of directories, with their scheme, that new data files are spread over.

    Each file has the chance of its directory's weight. With `entropy`, parts of a hash of its name become directories.
    Without `weights` the directories take turns.
    """

    directories: tuple[str, ...]
    weights: tuple[int, ...] | None = None
    entropy: bool = False


@dataclass(frozen=True)
class ExternalOptions(OptionTexts):
    """A table's options `data-file.external-paths`."""

    @property
    def external_paths(self) -> ExternalPaths | None:
        """Where new data files are written; None: in the table's directory.

        Raises: InvalidArgumentError, also for a directory without scheme, which Java refuses.
        """
        strategy = self._choice(STRATEGY, "none", _STRATEGIES)
        weights = self._weights()
        given = self._list(EXTERNAL_PATHS)
        if not given or strategy == "none":
            return None
        wanted = self.raw.get(_SPECIFIC_FS, "").strip().lower()
        if strategy == "specific-fs" and not wanted:
            raise InvalidArgumentError(f"option '{STRATEGY}' = '{strategy}' needs '{_SPECIFIC_FS}' = '<scheme>'")
        directories = []
        for text in given:
            form = _WITH_SCHEME.fullmatch(text)
            if form is None:
                raise InvalidArgumentError(
                    f"option '{EXTERNAL_PATHS}' names {text[:100]!r}; write full paths with their scheme, such as "
                    "s3://bucket/directory or file:///directory"
                )
            if strategy != "specific-fs" or form[1].lower() == wanted:
                directories.append(text)
        if not directories:
            raise InvalidArgumentError(f"option '{EXTERNAL_PATHS}' names no directory of '{_SPECIFIC_FS}' = '{wanted}'")
        if strategy != "weight-robin" or weights is None or len(directories) == 1:
            return ExternalPaths(tuple(directories), entropy=strategy == "entropy-inject")
        if len(weights) != len(directories):
            raise InvalidArgumentError(
                f"option '{_WEIGHTS}' has {len(weights)} weights, and '{EXTERNAL_PATHS}' {len(directories)} directories"
            )
        return ExternalPaths(tuple(directories), weights)

    def _weights(self) -> tuple[int, ...] | None:
        if _WEIGHTS not in self.raw:
            return None
        texts = self._list(_WEIGHTS)
        if not texts or not all(text.isascii() and text.isdigit() and int(text) > 0 for text in texts):
            raise InvalidArgumentError(f"option '{_WEIGHTS}' = {self.raw[_WEIGHTS]!r}; write integers, as 10,5")
        return tuple(map(int, texts))
