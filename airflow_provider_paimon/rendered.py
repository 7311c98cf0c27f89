"""Values of operators' own arguments after templates were rendered: Jinja renders everything to texts.

Fields of actions are read by the engine (`paimon_engine.specs`), as `templates` below says.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC
from functools import partial as with_arguments
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

from airflow_provider_paimon import engine
from paimon_engine.errors import InvalidArgumentError, shown

_NOTHING: Final = ("", "None", "null")
_SQL: Final = frozenset({"sql", "where", "source_where", "before"})
_STRUCTURES: Final = frozenset(
    {
        *("arguments", "storage_options", "table_options", "spark_conf", "options", "create", "properties"),
        *("columns", "primary_keys", "partition_keys", "partition_by", "source_columns", "parameters", "buckets"),
        *("overwrite", "partition", "partitions", "changes", "source", "kinds", "tables", "exclude", "must_read"),
    }
)
"""Arguments that may be mappings or lists."""
_MAY_HOLD_SECRETS: Final = frozenset({"storage_options", "table_options"})


def rendered_whole(templater: Any, render: Callable[..., Any], content: Any, context: Any, environment: Any) -> Any:
    """What `render`, the `render_template` of an operator, sensor or trigger, leaves; it takes content and environment.

    An argument that is one expression, such as `{{ partition_key }}`, is not given where that is None. Within a text
    Jinja writes the word: `day = 'None'` matches no row, and `load-None` would be the key of all runs without one.

    Raises: AirflowFailException for a text with such a part.
    """
    environment = environment or templater.get_template_env()
    if not isinstance(content, str):
        return render(content, context, environment)
    if environment.finalize is not None:
        return _without_password(render(content, context, environment))
    is_missing = False

    def look(value: Any) -> Any:
        nonlocal is_missing
        is_missing = is_missing or value is None
        return value

    found = render(content, context, environment.overlay(finalize=look))
    if is_missing and text(found) is not None:
        raise AirflowFailException(
            f"a template left no value for a part of a text: {shown(content)}. Start the run with what it names, "
            "such as a partition key; where nothing is meant, write {{ … or '' }}"
        )
    return _without_password(found)


def _without_password(found: Any) -> Any:
    """The same value, whose password, if it is an address with one, Airflow shows as `***`.

    The engine refuses such addresses, but Airflow shows rendered templates of tasks that failed, too.
    """
    if isinstance(found, str) and "://" in found and "@" in found:
        with contextlib.suppress(ValueError):
            mask_secret(urlsplit(found.strip()).password or "")
    return found


class WholeTemplates(BaseOperator):
    """An operator whose templates may leave no value for an argument, but not for a part of a text."""

    def render_template(
        self, content: Any, context: Any, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As in Airflow, which calls it for each text. Raises: AirflowFailException."""
        return rendered_whole(
            self, with_arguments(super().render_template, seen_oids=seen_oids), content, context, jinja_env
        )


class FileTemplates(WholeTemplates):
    """An operator whose complete arguments may name template files; texts in a list or a map are what they are.

    Airflow takes these for files, too: a comment that ends in `see conf.json` would be one.
    """

    template_ext: Sequence[str] = ()

    def resolve_template_files(self) -> None:
        """As in Airflow, which calls it where a DAG is read, and looks into lists."""
        lists = {name: found for name in self.template_fields if isinstance(found := getattr(self, name, None), list)}
        for name in lists:
            setattr(self, name, None)
        super().resolve_template_files()
        for name, found in lists.items():
            setattr(self, name, found)

    def render_template(
        self, content: Any, context: Any, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As in Airflow, which calls it for the parts of a list or a map as well."""
        if isinstance(content, str):
            return super().render_template(content, context, jinja_env, seen_oids)
        extensions, self.template_ext = self.template_ext, ()
        try:
            return super().render_template(content, context, jinja_env, seen_oids)
        finally:
            self.template_ext = extensions


def renderers(template_fields: Sequence[str]) -> dict[str, str]:
    """How Airflow's UI shows the templates among these arguments, after they were rendered."""
    return {name: "sql" if name in _SQL else "json" for name in template_fields if name in _SQL | _STRUCTURES}


def templates() -> engine.Edge:
    """A time without a zone is UTC, as elsewhere in Airflow; `None` or an empty text means no value."""
    return engine.Edge(zone=UTC, is_rendered=True)


def flag(name: str, value: Any) -> bool:
    """A yes or no. Raises: InvalidArgumentError."""
    kind = engine.kind_of(bool)
    try:
        found = None if kind is None else kind.read(value, templates())
    except ValueError:
        found = None
    if not isinstance(found, bool):
        raise InvalidArgumentError(f"{name}={value!r} is not allowed; give true or false")
    return found


def count(name: str, value: Any) -> int:
    """A number of at least 1. Raises: InvalidArgumentError."""
    found = value
    with contextlib.suppress(ValueError):
        found = int(value) if isinstance(value, str) else value
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InvalidArgumentError(f"{name}={value!r} is not allowed; give a number of at least 1")
    return found


def text(value: Any) -> str | None:
    """A text; None where nothing was given."""
    return None if value is None or str(value).strip() in _NOTHING else str(value)


_Kind = TypeVar("_Kind", dict[str, Any], list[Any])


def structure(name: str, value: Any, kind: type[_Kind]) -> _Kind | None:
    """A mapping or list, also as the text that a template or a template file leaves; None where nothing was given.

    Raises: InvalidArgumentError.
    """
    found = _parsed(name, value) if isinstance(value, str) else value
    if found is None:
        return None
    if kind is dict and isinstance(found, Mapping):
        return kind(found)
    if kind is list and isinstance(found, Sequence) and not isinstance(found, str):
        return kind(found)
    wanted = "a mapping of names and values" if kind is dict else "a list"
    raise InvalidArgumentError(f"{name} must be {wanted}, in Python or in a YAML file, not {_shown(name, found)}")


def partition(name: str, value: Any) -> dict[str, Any] | None:
    """Values by partition column; None where nothing was given.

    Raises: InvalidArgumentError, also where a template has left no value for a column.
    """
    kind, found = engine.kind_of(engine.PartitionValues), structure(name, value, dict)
    assert kind is not None
    try:
        return None if found is None else dict(kind.read(found, templates()))
    except ValueError as error:
        raise InvalidArgumentError(f"{name}={shown(value)} is not allowed; {error}") from error


def no_value(action: str, given: Collection[str]) -> InvalidArgumentError:
    """The error for arguments without a value, where an action without them does something else."""
    names = " and ".join(sorted(given))
    return InvalidArgumentError(
        f"{action}: {names} was given, and its template left no value; without it the action does something else: "
        f"give a value, or leave {names} out"
    )


def new_table(create: Mapping[str, Any] | str | None, columns: Any) -> engine.NewTable | None:
    """How to create a table that is not there; None where neither argument says so.

    Raises: InvalidArgumentError.
    """
    given = structure("create", create, dict)
    if given is None and columns is None:
        return None
    given = given or {}
    if columns is not None:
        given["columns"] = columns
    if isinstance(given.get("options"), Mapping):
        # What Jinja or Python gives as a number is a text in a table's options.
        given["options"] = {name: option_text(value) for name, value in given["options"].items()}
    return engine.decode(engine.NewTable, given, name="create", edge=templates())


def option_text(value: Any) -> str:
    """Text of an option that was given as a Python value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def list_or_map(name: str, value: Any) -> Any:
    """A list or a mapping, also as the text that a template leaves; None where nothing was given.

    Raises: InvalidArgumentError.
    """
    found = _parsed(name, value) if isinstance(value, str) else value
    if found is not None and (isinstance(found, str) or not isinstance(found, Mapping | Sequence)):
        raise InvalidArgumentError(
            f"{name} must be a list, or a mapping of names and values, not {_shown(name, found)}"
        )
    return found


def _shown(name: str, value: Any) -> str:
    return f"a {type(value).__name__}" if name in _MAY_HOLD_SECRETS else shown(value)


def list_in(value: Any) -> Any:
    """The list in the text that a template or a template file leaves; all else unchanged, for the engine to check."""
    try:
        found = _parsed("", value) if isinstance(value, str) else value
    except InvalidArgumentError:
        return value
    return found if isinstance(found, list) else value


def _parsed(name: str, given: str) -> Any:
    """The value in a text of JSON, of Python as Jinja writes it, or of YAML; None where there is none.

    Raises: InvalidArgumentError.
    """
    import yaml  # type: ignore[import-untyped]

    if text(given) is None:
        return None
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            if isinstance(found := read(given.strip()), dict | list):
                return found
    _refuse_calls(name, given)
    try:
        return yaml.safe_load(given)
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        if name not in _MAY_HOLD_SECRETS:
            raise InvalidArgumentError(f"{name} is not valid YAML: {why}") from error
    # Its error shows a part of the text.
    raise InvalidArgumentError(f"{name} is no mapping of names and values, in JSON, Python or YAML")


def _refuse_calls(name: str, given: str) -> None:
    """Raises InvalidArgumentError for a list or map of Python with objects in it, which YAML would take for texts."""
    try:
        found = ast.parse(given.strip(), mode="eval").body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    if isinstance(found, ast.Dict | ast.List | ast.Tuple) and any(isinstance(one, ast.Call) for one in ast.walk(found)):
        raise InvalidArgumentError(
            f"{name} has objects of Python, as times, of which a template makes texts that cannot be read again; give "
            "texts, such as {{ ds }}, or set render_template_as_native_obj=True on the DAG"
        )
