"""The options of a command from a TOML file: `holdfast serve --config holdfast.toml`.

    data = "/var/lib/holdfast"            --data
    listen = "0.0.0.0:7400"               --listen
    journal-size = "64G"                  --journal-size
    create-on-use = false                 --no-create-on-use

Keys are the names of the options, with - or _. An option on the command line counts before the environment, the environment
before the file, and the file before the default. Paths are meant from the folder of the file. A key that is no option is refused
with the nearest one.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import expanded
from holdfast.errors import BadSetting

# Options that are about the file itself, or about this one call.
ITSELF = {"config", "print_config", "help"}
# How the help shows an option whose value is a path.
PATHS = {"DIR", "FILE"}


def _take(context: typer.Context, parameter: typer.CallbackParam, file: Path | None) -> Path | None:
    """Let the options of the file be the defaults of the command."""
    if file is not None and not context.resilient_parsing:
        options = {each.name: each for each in context.command.params if each.name not in ITSELF}
        context.default_map = {name: _value(file, options[name], value) for name, value in _read(file, options)}
    return file


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="HOLDFAST_CONFIG",
        metavar="FILE",
        help="Take options from this TOML file; those given here count before it.",
        parser=expanded,
        is_eager=True,
        callback=_take,
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Print all options as such a file would have them, and do nothing else.")
]


def _read(file: Path, options: Iterable[str]) -> list[tuple[str, Any]]:
    try:
        given = tomllib.loads(file.read_text())
    except OSError as problem:
        raise BadSetting(f"the file {file} cannot be read: {problem.strerror}", setting="config") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"{file} is not TOML: {problem}", setting="config") from problem
    known = sorted(options)
    for key in given:
        if key.replace("-", "_") not in known:
            near = difflib.get_close_matches(key.replace("-", "_"), known, 1)
            hint = f"did you mean {near[0].replace('_', '-')}?" if near else f"there are {', '.join(_dashed(known))}"
            raise BadSetting(f"{file} has the unknown key {key!r}; {hint}", setting=key)
    return [(key.replace("-", "_"), value) for key, value in given.items()]


def _dashed(names: Iterable[str]) -> list[str]:
    return [name.replace("_", "-") for name in names]


def _value(file: Path, option: Any, value: Any) -> Any:
    """Return a value as the command line would have it. BadSetting for a value of another kind than the option's."""
    is_flag = bool(getattr(option, "is_flag", False))
    if isinstance(value, bool) != is_flag or not isinstance(value, bool | int | float | str):
        wanted = "true or false" if is_flag else "a text or a number"
        raise BadSetting(f"{file}: {option.name.replace('_', '-')} = {value!r} is not {wanted}", setting=option.name)
    if option.metavar in PATHS:
        return str(file.absolute().parent / Path(str(value)).expanduser())
    return value if is_flag else str(value)


def as_toml(context: typer.Context) -> str:
    """Return all options of a command as a file would have them; those that are not set as comments."""
    lines = []
    for option in context.command.params:
        if option.name not in ITSELF:
            name, value = str(option.name).replace("_", "-"), context.params[str(option.name)]
            lines.append(f"# {name} is not set" if value is None else f"{name} = {_text(value)}")
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
