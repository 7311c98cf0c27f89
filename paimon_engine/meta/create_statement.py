"""`CREATE TABLE` statements, as people write them for Flink or Spark, as the columns, keys and options of a new table.

sqlglot splits the text into tokens, quotes and comments included; the statement itself is read here, since no
dialect of sqlglot has all of Paimon's types and `PRIMARY KEY (…) NOT ENFORCED`.

    CREATE TABLE [IF NOT EXISTS] [db.]t (
        column TYPE [NOT NULL] [PRIMARY KEY [NOT ENFORCED]] [COMMENT 'text'], …
        [PRIMARY KEY (column, …) [NOT ENFORCED]]
    ) [USING paimon] [COMMENT 'text'] [PARTITIONED BY (column, …)]
      [WITH | TBLPROPERTIES | OPTIONS ('option' = 'value', …)]

Fields of a ROW may have a COMMENT, too. A statement with USING or TBLPROPERTIES is Spark's: TIMESTAMP without a
precision is TIMESTAMP_LTZ there, STRUCT is ROW.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.meta.type_text import parse_type_text
from paimon_engine.types import DataField, RowType, with_nullable

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_SHOWN_CHARS: Final = 60
_NAME_PARTS: Final = 2
_ENDS_OF_TYPE: Final = frozenset({"COMMENT", "PRIMARY", "DEFAULT", "AS", "METADATA", "GENERATED", "UNIQUE", "CHECK"})
_NOT_HELD: Final = frozenset({"DEFAULT", "AS", "METADATA", "GENERATED", "UNIQUE", "CHECK"})
_OPTION_WORDS: Final = frozenset({"WITH", "TBLPROPERTIES", "OPTIONS"})
_OF_SPARK: Final = frozenset({"USING", "TBLPROPERTIES"})
_SPARK_TYPES: Final[Mapping[str, str]] = {
    "STRUCT": "ROW",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
    "TIMESTAMP": "TIMESTAMP_LTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class CreateStatement:
    """The table that a statement defines; `name` has the database where the statement names one."""

    name: str
    columns: RowType
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] | None = None
    comment: str | None = None
    if_not_exists: bool = False


def parse_create_table(text: str) -> CreateStatement:
    """The table of a `CREATE TABLE` statement.

    Raises: InvalidArgumentError naming the position, and the column with its text; UnsupportedError for what tables of
    Paimon, or this engine, do not have.
    """
    import sqlglot

    try:
        words = [word for token in sqlglot.tokenize(text, read="spark") for word in _words_of(token, text)]
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(f"not a CREATE TABLE statement: {error}") from error
    return _Parser(text, words).statement()


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, quoted name, text or sign of the statement, from the character `start` to `end` inclusive."""

    text: str
    start: int
    end: int
    is_name: bool = False
    is_text: bool = False


def _words_of(token: Token, statement: str) -> list[_Word]:
    """The words of a token: sqlglot takes PRIMARY KEY and the like for one."""
    from sqlglot.tokens import TokenType

    is_name, is_text = token.token_type is TokenType.IDENTIFIER, token.token_type is TokenType.STRING
    if is_name or is_text or " " not in str(token.text):
        return [_Word(str(token.text), token.start, token.end, is_name, is_text)]
    stored = re.finditer(r"\S+", statement[token.start : token.end + 1])
    return [_Word(part[0], token.start + part.start(), token.start + part.end() - 1) for part in stored]


class _Parser:
    """Goes through the words of a statement, each once."""

    def __init__(self, text: str, tokens: list[_Word]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._is_spark = any(self._word(index) in _OF_SPARK for index in range(len(tokens)))
        self._columns: list[DataField] = []
        self._keys: tuple[str, ...] = ()

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def _word(self, index: int) -> str:
        """The word at an index in capitals; nothing for quoted names, texts and the end."""
        if index >= len(self._tokens) or self._tokens[index].is_name or self._tokens[index].is_text:
            return ""
        return self._tokens[index].text.upper()

    def _takes(self, *words: str) -> bool:
        """Goes behind these words, if they come next."""
        if any(self._word(self._at + index) != word for index, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._takes(*words):
            raise self._wrong(f"expected {' '.join(words)}")

    def _wrong(self, what: str) -> InvalidArgumentError:
        if self._at >= len(self._tokens):
            return InvalidArgumentError(f"CREATE TABLE: {what} at the end of the statement")
        rest = self._text[self._tokens[self._at].start :][:_SHOWN_CHARS]
        return InvalidArgumentError(f"CREATE TABLE: {what} at {rest!r}")

    def _name(self) -> str:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.is_name or (not token.is_text and token.text.isidentifier()):
                self._at += 1
                return token.text
        raise self._wrong("expected a name")

    def _string(self) -> str:
        """A text; texts without a gap are one with a quote in it."""
        parts: list[str] = []
        while self._at < len(self._tokens) and self._tokens[self._at].is_text:
            token = self._tokens[self._at]
            if parts and token.start != self._tokens[self._at - 1].end + 1:
                break
            parts.append(token.text)
            self._at += 1
        if not parts:
            raise self._wrong("expected a text in single quotes")
        return "'".join(parts)

    def _names(self) -> tuple[str, ...]:
        self._expect("(")
        found = [self._name()]
        while self._takes(","):
            found.append(self._name())
        self._expect(")")
        return tuple(found)

    # ── the statement ───────────────────────────────────────────────────────────────────────────

    def statement(self) -> CreateStatement:
        """Parses the statement."""
        self._expect("CREATE", "TABLE")
        if_not_exists = self._takes("IF", "NOT", "EXISTS")
        parts = [self._name()]
        while self._takes("."):
            parts.append(self._name())
        self._expect("(")
        self._element()
        while self._takes(","):
            self._element()
        self._expect(")")
        found = CreateStatement(
            ".".join(parts[-_NAME_PARTS:]), RowType(tuple(self._columns), nullable=False), self._keys
        )
        found = self._clauses(replace(found, if_not_exists=if_not_exists))
        for name in (*found.primary_keys, *found.partition_keys):
            found.columns.field(name)
        return found

    def _element(self) -> None:
        if self._takes("CONSTRAINT"):
            self._name()
        if self._takes("PRIMARY", "KEY"):
            self._add_keys(self._names())
        elif self._word(self._at) == "WATERMARK" and self._word(self._at + 1) == "FOR":
            raise UnsupportedError("CREATE TABLE: a table of Paimon keeps no WATERMARK definition; leave it out")
        else:
            self._columns.append(self._column())

    def _add_keys(self, names: tuple[str, ...]) -> None:
        if self._keys:
            raise InvalidArgumentError("CREATE TABLE: there is more than one PRIMARY KEY; name all its columns in one")
        self._takes("NOT", "ENFORCED")
        self._keys = names

    def _column(self) -> DataField:
        """Parses a column: name, type, and clauses up to the comma. Raises: InvalidArgumentError, UnsupportedError."""
        name = self._name()
        text = self._type_text()
        try:
            found = DataField(-1, name, parse_type_text(text))
        except PaimonError as error:
            raise type(error)(f"column {name!r}: {error}") from error
        while not self._ends_element():
            if self._takes("COMMENT"):
                found = replace(found, description=self._string())
            elif self._takes("PRIMARY", "KEY"):
                self._add_keys((name,))
                found = replace(found, type=with_nullable(found.type, nullable=False))
            elif self._word(self._at) in _NOT_HELD:
                what = self._word(self._at)
                way = f"; set 'fields.{name}.default-value' instead" if what == "DEFAULT" else ""
                raise UnsupportedError(f"CREATE TABLE: column {name!r} has {what}, which is not supported{way}")
            else:
                raise self._wrong(f"column {name!r}: expected a comma")
        return found

    def _ends_element(self) -> bool:
        return self._at >= len(self._tokens) or self._word(self._at) in (",", ")")

    def _type_text(self) -> str:
        """The text up to what follows a type: a comma or bracket that belongs to the list of columns, or a keyword."""
        begin, depth = self._at, 0
        while self._at < len(self._tokens):
            word = self._word(self._at)
            if depth == 0 and (word in (",", ")") or word in _ENDS_OF_TYPE):
                break
            depth += (word in ("<", "(")) - (word in (">", ")"))
            self._at += 1
        if begin == self._at:
            raise self._wrong(f"column {self._tokens[begin - 1].text!r}: expected a type")
        parts = []
        for index in range(begin, self._at):
            token = self._tokens[index]
            behind = self._tokens[index + 1].start if index + 1 < self._at else token.end + 1
            parts.append(self._as_paimon(index) + self._text[token.end + 1 : behind])
        return "".join(parts)

    def _as_paimon(self, index: int) -> str:
        token = self._tokens[index]
        if token.is_text:
            # The comment of a field, however it was quoted.
            return "'" + token.text.replace("'", "''") + "'"
        stored = self._text[token.start : token.end + 1]
        word, following = self._word(index), self._word(index + 1)
        if not self._is_spark or word not in _SPARK_TYPES:
            return stored
        # Fields of a row may have such a name.
        is_type = following == "<" if word == "STRUCT" else following in {"", ",", ">", ")", "NOT", *_ENDS_OF_TYPE}
        return _SPARK_TYPES[word] if is_type else stored

    def _clauses(self, found: CreateStatement) -> CreateStatement:
        """Parses what follows the list of columns, in any order, up to the end of the statement.

        Raises: InvalidArgumentError, UnsupportedError.
        """
        while self._at < len(self._tokens) and not self._takes(";"):
            if self._takes("USING"):
                if self._name().lower() != "paimon":
                    raise UnsupportedError("CREATE TABLE: only tables USING paimon can be created")
            elif self._takes("COMMENT"):
                self._takes("=")
                found = replace(found, comment=self._string())
            elif self._takes("PARTITIONED", "BY"):
                found = replace(found, partition_keys=self._names())
            elif self._word(self._at) in _OPTION_WORDS:
                self._at += 1
                found = replace(found, options={**(found.options or {}), **self._options()})
            else:
                raise self._wrong("expected COMMENT, PARTITIONED BY, WITH or TBLPROPERTIES")
        if self._at < len(self._tokens):
            raise self._wrong("expected the end, since one statement is carried out at a time,")
        return found

    def _options(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._expect("(")
        while True:
            key = self._string()
            self._expect("=")
            if key in found:
                raise InvalidArgumentError(f"CREATE TABLE: option '{key}' comes twice")
            found[key] = self._string()
            if not self._takes(","):
                break
        self._expect(")")
        return found
