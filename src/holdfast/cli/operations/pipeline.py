"""`holdfast pipeline`: ready pipelines on Spark. Each is a command made from the settings of the pipeline.

`holdfast.spark.pipelines.running.registry` lists the pipelines. The options of a command are the names of its settings file.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json, expanded, keyword
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.spark.pipelines.running.registry import Pipeline
    from holdfast.spark.pipelines.running.settings import Settings

INSTALL = "pip install 'holdfast[spark]'"
EXITS = {0: "done, or stopped in good order", 3: "the server or Spark cannot be reached, or failed: start it again, it goes on"}
# Settings that only a file has.
IN_FILES_ONLY = ("spark",)
FROM_ENVIRONMENT = {"url": "HOLDFAST_URL"}

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings in TOML; options on the command line win.", parser=expanded),
]
Check = Annotated[bool, typer.Option("--check", help="Check the settings and print them; start nothing.")]

group = typer.Typer(
    help="Run events through Spark: into tables, statistics and alerts, and back.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    from holdfast.spark.pipelines.running.registry import PIPELINES

    for pipeline in PIPELINES:
        described = help_text.described(pipeline.sentence, pipeline.examples, help_text.CLIENT, {**EXITS, **pipeline.exits})
        group.command(pipeline.name, **described)(_command(pipeline))
    app.add_typer(group, name="pipeline")


@group.command(
    "list",
    **help_text.described(
        "List the pipelines: what each does, and its options.",
        ["holdfast pipeline list", "holdfast pipeline list --json"],
        help_text.PLAIN,
    ),
)
def list_(json: Json = False) -> None:
    from holdfast.cli.output import json_line, print_line

    for pipeline in listed():
        if json:
            print_line(json_line(pipeline))
        else:
            print_line(f"{pipeline['name']}\n    {pipeline['sentence']}\n    {' '.join(pipeline['options'])}")


def listed() -> list[dict[str, Any]]:
    """Every pipeline that has a command, with its options, as the help has them."""
    command = typer.main.get_command(group)
    return [
        {
            "name": name,
            "sentence": child.help,
            "options": [option for parameter in child.params for option in parameter.opts if option.startswith("--")],
        }
        for name, child in sorted(command.commands.items())  # type: ignore[attr-defined]  # a group has them
        if name != "list"
    ]


def need(what: str, packages: Sequence[str]) -> None:
    """Refuse, with what to install, unless all of these packages can be imported."""
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise BadSetting(f"{what} need {' and '.join(missing)}, which are not installed here: {INSTALL}", setting="spark")


def _command(pipeline: Pipeline) -> Callable[..., None]:
    """A function with a parameter for each setting, as typer needs it."""

    def run(config: Path | None, check: bool, json: bool, **given: Any) -> None:
        _run(pipeline, config, given, check=check, as_json=json)

    parameters = [_parameter(name, hint) for name, hint in typing.get_type_hints(pipeline.settings, include_extras=True).items()]
    common = [keyword("config", Config, None), keyword("check", Check, False), keyword("json", Json, False)]
    kept = [parameter for parameter in parameters if parameter.name not in IN_FILES_ONLY]
    run.__signature__ = inspect.Signature([*kept, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *common)}
    return run


def _run(pipeline: Pipeline, config: Path | None, given: dict[str, Any], *, check: bool, as_json: bool) -> None:
    from holdfast.spark.pipelines.running.registry import NAMES
    from holdfast.spark.pipelines.running.settings import load

    settings = load(pipeline.settings, pipeline.name, config, given, NAMES)
    if check:
        _show_settings(settings, as_json=as_json)
        return
    need("pipelines", ("pyspark", "pyarrow", "deltalake"))
    from holdfast.spark.pipelines.running.runner import run

    run(pipeline.name, settings, as_json=as_json)


def _show_settings(settings: Settings, *, as_json: bool) -> None:
    from holdfast.cli.output import show
    from holdfast.client.url import without_password

    said = msgspec.structs.asdict(settings)
    show({**said, "url": without_password(settings.url)}, as_json=as_json)


def _parameter(name: str, hint: Any) -> inspect.Parameter:
    """The option of a setting. None when it is not given: then the file or the default counts."""
    kind, *metas = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    help = next((meta.description for meta in metas if meta.description), None)
    metavar = next((meta.extra["metavar"] for meta in metas if meta.extra), None)
    option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=help, envvar=FROM_ENVIRONMENT.get(name))
    return keyword(name, Annotated[_typed(kind), option], None)


def _typed(kind: Any) -> Any:
    """The type that the command line reads: a flag, a number, or text, which the settings check."""
    return bool | None if kind is bool else int | None if kind is int else float | None if kind is float else str | None
