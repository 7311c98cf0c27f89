"""Commands made of actions: the options come from the action's spec, the output is written by hand.

    @face("compact", "`paimon-engine compact db.t -w /lake --full`", options={"buckets": "--bucket"})
    def compact(details, spec):
        \"\"\"Merge sorted runs and small files; within limits those first that cost readers most.\"\"\"

is the complete command: each field of `Compact` is an option, with the help text of the field; the texts are parsed by
the decoder that jobs and operators use; the docstring is the command's help, and the function prints the result.
An action without a face gets a plain one under its name.

The options of a command are made when they are needed: specs are in the modules of their actions, which import Arrow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from paimon_engine.cli.arguments import (
    CatalogOption,
    JsonOption,
    SparkOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    job_on,
)
from paimon_engine.cli.outcome import print_plainly
from paimon_engine.cli.running import confirm, run_job, run_quick
from paimon_engine.cli.terminal import ProgressStyle, print_json

if TYPE_CHECKING:
    from paimon_engine.specs import SpecField

Show = Callable[[Mapping[str, Any], Any], None]

_ProgressOption = Annotated[ProgressStyle, typer.Option("--progress", help="How to show progress, on standard error.")]
_YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_FAILURES: Final = ("failed", "problems", "conflicts")
"""Lists of a result that are empty where all went well."""


@dataclass(frozen=True, slots=True)
class Face:
    """How an action looks as a command.

    `doing` is shown while an action works that has no steps to count. `arguments` are fields that are given without a
    name, `options` other names of fields. `question` is for actions that have a dry run, and asks before anything is
    lost; `{…}` in it are fields and `table`.
    """

    name: str
    action: str
    show: Show
    help: str
    examples: Sequence[str] = ()
    doing: str | None = None
    arguments: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None


FACES: Final[dict[str, Face]] = {}
"""All faces that are written by hand, by their names."""


def face(name: str, *examples: str, action: str | None = None, **more: Any) -> Callable[[Show], Show]:
    """Registers the function that prints an action's result as its face; by default both have one name."""

    def register(show: Show) -> Show:
        named = action or name.replace("-", "_")
        FACES[name] = Face(name, named, show, inspect.getdoc(show) or "", examples, **more)
        return show

    return register


def plain_face(action: str) -> Face:
    """The generated face of an action. Raises: InvalidArgumentError if the action does not exist."""
    from paimon_engine.action_table import ACTIONS, action_type
    from paimon_engine.specs import fields_of

    needed = tuple(item.name for item in fields_of(action_type(action)) if item.is_required)
    help_line = ACTIONS[action].summary
    example = (
        f"`paimon-engine {action.replace('_', '-')} /lake/db.db/t{''.join(f' {name.upper()}' for name in needed)}`"
    )
    name = action.replace("_", "-")
    return Face(name, action, print_plainly, f"{help_line[:1].upper()}{help_line[1:]}.", (example,), arguments=needed)


def add_faces(app: typer.Typer, *names: str) -> None:
    """Adds the commands of these faces, under the last word of their names."""
    for name in names:
        made = FACES[name]
        app.command(made.name.rpartition(" ")[2], cls=_command_class(made), help=made.help, epilog=_epilog(made))(
            _command_placeholder
        )


def _epilog(made: Face) -> str:
    return "Examples:\n\n" + "\n\n".join(made.examples)


def _command_placeholder() -> None:
    """Placeholder: `ActionCommand.made` builds the real function from the spec's fields."""


def _command_class(made: Face) -> type[TyperCommand]:
    return type("ActionCommand", (ActionCommand,), {"face": made})


class ActionCommand(TyperCommand):
    """A command whose options are those of an action's spec, which is loaded when they are needed."""

    face: Face

    @functools.cached_property
    def made(self) -> TyperCommand:
        """The command with its options."""
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(self.face.name)(command_of(self.face))
        made = typer.main.get_command(alone)
        assert isinstance(made, TyperCommand)
        return made

    @property
    def params(self) -> list[Any]:
        """Arguments and options; typer sets none, as the function that it sees has no parameters."""
        return self.made.params

    @params.setter
    def params(self, none: list[Any]) -> None:
        pass

    def invoke(self, ctx: Any) -> Any:
        self.callback = self.made.callback
        return super().invoke(ctx)


class ActionGroup(TyperGroup):
    """Commands, among them each action that has no face, under its own name."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        from paimon_engine.action_table import ACTIONS

        action = cmd_name.replace("-", "_")
        if action not in ACTIONS or any(made.action == action for made in FACES.values()):
            return None
        made = plain_face(action)
        return _command_class(made)(made.name, help=made.help, epilog=_epilog(made), rich_markup_mode="markdown")


# ── a function for typer ────────────────────────────────────────────────────────────────────────


def command_of(made: Face) -> Callable[..., None]:
    """A function with a parameter for each field of the spec, for typer to make options of."""
    from paimon_engine.action_table import ACTIONS
    from paimon_engine.specs import fields_of

    info = ACTIONS[made.action]
    items = {item.name: item for item in fields_of(info.spec)}
    runs_tasks = info.on_tasks or "parallelism" in items

    def run(**given: Any) -> None:
        _run(made, items, given)

    arguments = [_parameter(items[name], made) for name in made.arguments]
    options = [_parameter(item, made) for item in items.values() if item.name not in made.arguments]
    parameters = [
        _keyword("table", TableArgument),
        *arguments,
        _keyword("warehouse", WarehouseOption, None),
        _keyword("storage", StorageOption, None),
        _keyword("catalog", CatalogOption, None),
        *options,
        *([_keyword("spark", SparkOption, None)] if runs_tasks else ()),
        *([_keyword("progress", _ProgressOption, ProgressStyle.BAR)] if made.doing is None else ()),
        *([_keyword("yes", _YesOption, False)] if made.question is not None else ()),
        _keyword("as_json", JsonOption, False),
    ]
    # What typer looks at.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = made.help
    return run


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_OWN: Final = "field_"
"""Before the names of fields, some of which are those of other parameters."""


def _parameter(item: SpecField, made: Face) -> inspect.Parameter:
    """The parameter of a field. Values are texts, which the decoder reads; only flags are flags."""
    is_list = item.item is not None
    is_flag = item.inner is bool
    name = _OWN + item.name
    text = f"{item.help[:1].upper()}{item.help[1:]}." if item.help else ""
    metavar = _metavar(item)
    if item.name in made.arguments:
        kind: Any = list[str] if is_list else str
        argument = typer.Argument(metavar=metavar, help=text)
        return _keyword(name, Annotated[kind if item.is_required else kind | None, argument], *_default(item))
    flag = made.options.get(item.name, f"--{item.name.replace('_', '-')}")
    if is_flag:
        return _keyword(name, Annotated[bool, typer.Option(flag, help=text)], False)
    option = typer.Option(flag, metavar=metavar, help=f"{text[:-1]}; may be repeated." if is_list else text)
    return _keyword(name, Annotated[list[str] | None if is_list else str | None, option], *_default(item))


def _default(item: SpecField) -> tuple[Any, ...]:
    if item.is_required:
        return ()
    return (item.default if isinstance(item.default, str) else None,)


def _metavar(item: SpecField) -> str:
    inner = item.inner
    if get_origin(inner) is Literal:
        return f"[{'|'.join(map(str, get_args(inner)))}]"
    return "JSON" if item.kind is None else item.kind.metavar


# ── carrying it out ─────────────────────────────────────────────────────────────────────────────


def _run(made: Face, items: Mapping[str, SpecField], given: Mapping[str, Any]) -> None:
    """Carries out the action of a command and prints its result.

    `given` are typer's values. Those of spec fields have `_OWN` before their names, and are None where an option was
    left out, so that the spec's default holds; the others are those of every command (table, catalog, Spark, output).
    """
    from paimon_engine.action_table import action_type
    from paimon_engine.specs import decode

    named = {name: _value(item, given[_OWN + name]) for name, item in items.items()}
    fields = {name: value for name, value in named.items() if value is not None}
    spec: Any = decode(action_type(made.action), fields, name=made.action)
    job = job_on(given["table"], given["warehouse"], given["storage"], given["catalog"], spec)
    if made.question is not None and not given["yes"] and not fields.get("dry_run"):
        confirm(job, "looking", made.question.format(table=given["table"], **named))
    spark = given.get("spark")
    if made.doing is None:
        details = run_job(job, spark=spark, progress=given["progress"]).details
    else:
        details = run_quick(job, made.doing, spark=spark)
    finish(details, spec, made.show, as_json=given["as_json"])


def _value(item: SpecField, given: Any) -> Any:
    """What was given for a field; a list of several texts, each of which may be a list itself."""
    from paimon_engine.specs import read_list

    if not isinstance(given, list):
        return given
    if len(given) == 1:
        return given[0]
    try:
        return [one for text in given for one in read_list(text, item.kind)] or None
    except ValueError:
        # The decoder says what is wrong with it.
        return given


def finish(details: Mapping[str, Any], spec: Any, show: Show, *, as_json: bool) -> None:
    """Prints the result of an action, and ends with exit code 1 if it failed."""
    if as_json:
        print_json(details)
    else:
        show(details, spec)
    if details["status"] == "stopped" or any(details.get(name) for name in _FAILURES):
        raise typer.Exit(1)
