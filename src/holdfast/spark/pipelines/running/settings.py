"""The settings of the pipelines: from a TOML file, the command line on top of it, checked before Spark is started.

    url = "holdfast://127.0.0.1:7400"       # for every pipeline
    destinations = ["orders", "alerts.*"]

    [archive]                               # for one of them; it may also say again what is said above
    subscription = "lake"
    checkpoint = "./checkpoints/archive"
    table = "./lake"

    [spark]                                 # handed to the Spark session as it is
    "spark.executor.memory" = "4g"

The command line wins over the environment, that over the pipeline's own table, that over what is said for all. A name that
nothing knows is refused: a setting with a typing error in it would be one that silently does nothing. This module does not import
Spark: the help of the command line is made from it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from holdfast.errors import BadSetting

URL_DEFAULT = "holdfast://127.0.0.1:7400"
MASTER_DEFAULT = "local[*]"
SPARK_TABLE = "spark"
PERIODS_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\Z")


def shown_as(metavar: str, description: str) -> Meta:
    """The help text of a setting on the command line."""
    return Meta(description=description, extra={"metavar": metavar})


class Settings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Settings of every pipeline: where the events are, and where Spark is."""

    url: Annotated[
        str, shown_as("URL", "Where the events are: holdfast://HOST[:PORT], holdfasts://USER@HOST (password: HOLDFAST_PASSWORD).")
    ] = URL_DEFAULT
    spark_master: Annotated[str, shown_as("MASTER", "Where Spark runs: local[*], spark://HOST:7077, yarn, k8s://….")] = (
        MASTER_DEFAULT
    )
    remote: Annotated[str, shown_as("URL", "A Spark Connect server instead, such as sc://HOST:15002.")] = ""
    spark: dict[str, str] = {}

    def check(self) -> None:
        """BadSetting when something is missing or does not go together."""
        if self.remote and self.spark_master != MASTER_DEFAULT:
            raise BadSetting("--remote and --spark-master are two places to run at; give one of them", setting="remote")


class KeptSettings(Settings, kw_only=True, frozen=True):
    """Settings of a pipeline that goes on where it stopped."""

    timeout: Annotated[float, Meta(gt=0), shown_as("SECONDS", "How long to wait for a server that does not answer.")] = 60.0
    checkpoint: Annotated[str, shown_as("DIR", "Where it is written down how far it is; one for each pipeline.")] = ""

    def check(self) -> None:
        needed(self, "checkpoint", "it is where a pipeline finds out how far it was, such as ./checkpoints/archive")
        super().check()


class StreamSettings(KeptSettings, kw_only=True, frozen=True):
    """Settings of a pipeline that follows a durable subscription."""

    destinations: Annotated[str | list[str], shown_as("NAMES", "Topics to read, such as orders or 'alerts.*,orders'.")] = ""
    subscription: Annotated[str, shown_as("NAME", "Its durable subscription; made if it is missing. One for each pipeline.")] = ""
    selector: Annotated[
        str, shown_as("CONDITION", 'Read only what matches, such as "amount > 100", by properties and attributes, not data.')
    ] = ""
    format: Annotated[Literal["binary", "text", "json"], shown_as("FORMAT", "What data is read as: binary, text or json.")] = (
        "binary"
    )
    data_schema: Annotated[str, shown_as("DDL", 'The fields of JSON data, such as "sku int, amount double".')] = ""
    max_events: Annotated[int, Meta(ge=0), shown_as("N", "Events in one batch at most; 0: as many as there are.")] = 0
    max_bytes: Annotated[int, Meta(ge=0), shown_as("N", "Bytes in one batch at most; 0: as many as there are.")] = 0
    sync: Annotated[
        str, shown_as("local|SECONDS", "Confirm when this machine has synced its disks, or so long after the commit.")
    ] = "local"
    once: Annotated[bool, Meta(description="Take what is there now, and end.")] = False
    every: Annotated[float, Meta(ge=0), shown_as("SECONDS", "Begin a batch so often; 0: as soon as there is something.")] = 0.0

    def check(self) -> None:
        needed(self, "destinations", "name the topics to read, such as orders or 'alerts.*'")
        needed(self, "subscription", "name the durable subscription that holds the events for this pipeline, such as lake")
        super().check()
        if self.once and self.every:
            raise BadSetting("--once takes what is there and ends, --every goes on; give one of them", setting="every")
        if self.data_schema and self.format != "json":
            raise BadSetting("a data schema is for JSON; say --format json too, or leave it out", setting="data_schema")

    @property
    def names(self) -> str:
        """The destinations as the source takes them."""
        return self.destinations if isinstance(self.destinations, str) else ",".join(self.destinations)

    def source_options(self) -> dict[str, str]:
        """The options for `readStream.format("holdfast")`."""
        said = {
            "url": self.url,
            "destinations": self.names,
            "subscription": self.subscription,
            "format": self.format,
            "sync": self.sync,
            "timeout": f"{self.timeout:g}",
            "selector": self.selector,
            "dataSchema": self.data_schema,
            "maxEventsPerTrigger": str(self.max_events or ""),
            "maxBytesPerTrigger": str(self.max_bytes or ""),
        }
        return {name: value for name, value in said.items() if value}


Kind = TypeVar("Kind", bound=Settings)


def needed(settings: Settings, name: str, why: str) -> None:
    if not getattr(settings, name):
        option = name.replace("_", "-")
        raise BadSetting(f"--{option} is missing (or {name} in the settings file): {why}", setting=name)


def seconds(period: float | str, name: str) -> float:
    """Seconds from `90`, `"90s"`, `"5m"` or `"1.5h"`; BadSetting for what is none, or not positive."""
    found = _PERIOD.match(str(period).strip())
    value = float(found[1]) * PERIODS_SECONDS[found[2] or "s"] if found else 0.0
    if value <= 0:
        raise BadSetting(
            f"{name} {period!r} is not a time; write seconds, or it like 90s, 5m, 2h or 1d", setting=name, value=period
        )
    return value


def load(kind: type[Kind], pipeline: str, file: Path | None, given: Mapping[str, Any], others: tuple[str, ...] = ()) -> Kind:
    """The settings of a pipeline: from the file, with what is `given` on top. `others` have tables in the same file."""
    said = _from_file(kind, pipeline, read_toml(file), file, others) if file is not None else {}
    said |= {name: value for name, value in given.items() if value is not None}
    settings: Kind = convert(kind, said, f"pipeline {pipeline}")
    settings.check()
    return settings


def convert(kind: type[Any], said: Mapping[str, Any], where: str) -> Any:
    """The values as this kind of settings, or BadSetting that names the one that does not fit."""
    refuse_unknown(said, {field.name for field in msgspec.structs.fields(kind)}, where)
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as problem:
        raise BadSetting(f"{where}: {str(problem).replace(' - at `$.', '; the setting is `')}") from None


def read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as problem:
        raise BadSetting(f"{file} cannot be read ({problem.strerror}); give the path of a TOML file", setting="config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"{file} is not TOML: {problem}", setting="config") from None


def refuse_unknown(said: Mapping[str, Any], known: set[str], where: str) -> None:
    """BadSetting for the first name that is not known, with the one that was probably meant."""
    for name in said:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
            raise BadSetting(f"{where}: there is no setting {name!r}; {hint}", setting=name)


def _from_file(
    kind: type[Settings], pipeline: str, said: dict[str, Any], file: Path | None, others: tuple[str, ...]
) -> dict[str, Any]:
    """Read this pipeline's settings from the file: those for all pipelines that it has, then its own table."""
    tables = {pipeline, *others}
    own = said.get(pipeline, {})
    if not isinstance(own, dict):
        raise BadSetting(f"{file}: {pipeline} is a table, [{pipeline}], not a value", setting=pipeline)
    fields = {field.name for field in msgspec.structs.fields(kind)}
    shared = {name: value for name, value in said.items() if name not in tables}
    refuse_unknown(shared, {field.name for field in msgspec.structs.fields(StreamSettings)} | tables, str(file))
    refuse_unknown(own, fields, f"{file}, [{pipeline}]")
    return {name: value for name, value in shared.items() if name in fields} | own
