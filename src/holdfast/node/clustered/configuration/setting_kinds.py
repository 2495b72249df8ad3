"""The kinds of settings: which must be equal at all nodes, which are acquired from the cluster, and which are a node's own.

essential     `essential_values`: what a message manager and its channel are
acquirable    `ACQUIRABLE`: limits and times that people change while the cluster runs; users are a document of their own
own           `OWN` and `OWN_OF_CLUSTER`: what differs from machine to machine, or concerns one process alone

ADR 28 says why each is of its kind. A setting that is in none of these tables fails a test.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from holdfast.channel.jetstream.settings import MIB
from holdfast.cluster.configuration import Value, Values
from holdfast.errors import BadSetting
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.settings import NodeSettings, parse_size

# Fields of NodeSettings that are compared with those of all nodes.
ESSENTIAL = ("window",)
# Fields of NodeSettings that concern one node alone, or that a cluster has elsewhere.
OWN = (
    "name", "site", "managers", "placement", "journal", "start_grace_ms", "heartbeat_ms", "vigil_us", "link_bytes_max",
    "snapshot_bytes",
)  # fmt: skip
# Fields of ClusterSettings that concern one node alone; `name` is that of the bucket, so that it cannot differ. Rules of
# placement may differ while they are changed: whichever node places a name first, all others find it there.
OWN_OF_CLUSTER = ("name", "nats", "placement")


class Acquirable(NamedTuple):
    """A setting that is changed while the cluster runs: its field of NodeSettings, and how its value is read from text."""

    field: str
    read: Callable[[str, str], Value]


def _number(text: str, key: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadSetting(f"{key} {text!r:.40} is not a number", setting=key) from None


def _truth(text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadSetting(f"{key} {text!r:.40} is not true or false", setting=key)
    return text.lower() == "true"


ACQUIRABLE: Mapping[str, Acquirable] = {
    "session_grace_ms": Acquirable("session_grace_ms", _number),
    "create_on_use": Acquirable("is_create_on_first_use", _truth),
    "large_max": Acquirable("large_bytes_max", parse_size),
    "assembly_idle_ms": Acquirable("assembly_idle_ms", _number),
    "stage_idle_ms": Acquirable("stage_idle_ms", _number),
    "assemblies_max": Acquirable("assemblies_max", _number),
    "parts_max": Acquirable("parts_max", _number),
    "session_temporaries_max": Acquirable("session_temporaries_max", _number),
    "user_temporaries_max": Acquirable("user_temporaries_max", _number),
    "user_producers_max": Acquirable("user_producers_max", _number),
}
_DEFAULTS = {field.name: getattr(NodeSettings(), field.name) for field in fields(NodeSettings)}


def essential_values(cluster: ClusterSettings, settings: NodeSettings) -> dict[str, Value]:
    """What must be equal at all nodes, by key."""
    return {
        "managers": ", ".join(cluster.managers),
        **{f"managers.{name}": ", ".join(nodes) for name, nodes in cluster.managers.items()},
        "replicas": cluster.nats.replicas,
        "size_mib": cluster.nats.size_bytes // MIB,
        "reserve_mib": cluster.nats.reserve_bytes // MIB,
        "upkeep_mib": cluster.nats.upkeep_bytes // MIB,
        **{key: getattr(settings, key) for key in ESSENTIAL},
    }


def given_values(settings: NodeSettings) -> dict[str, Value]:
    """The acquirable settings that a node was given: those that are not as in every release."""
    return {key: value for key, each in ACQUIRABLE.items() if (value := getattr(settings, each.field)) != _DEFAULTS[each.field]}


def in_force(settings: NodeSettings, values: Values) -> NodeSettings:
    """The settings of a node, with the acquirable ones as the cluster has them; BadSetting for a value that cannot be."""
    of_release = {each.field: _DEFAULTS[each.field] for each in ACQUIRABLE.values()}
    given = {ACQUIRABLE[key].field: value for key, value in values.items() if key in ACQUIRABLE}
    changed: dict[str, Any] = {**of_release, **given}
    return replace(settings, **changed)


def all_values(settings: NodeSettings) -> dict[str, Value]:
    """Every acquirable setting that is in force."""
    return {key: getattr(settings, each.field) for key, each in ACQUIRABLE.items()}


def read_value(key: str, text: str) -> Value | None:
    """The value of a key from text; None for `default`. BadSetting for an unknown key, or one that cannot be changed online."""
    name = key.replace("-", "_")
    if name not in ACQUIRABLE:
        raise BadSetting(
            f"{key!r:.40} cannot be changed while the cluster runs; these can: users, {', '.join(ACQUIRABLE)}", setting=key[:40]
        )
    return None if text == "default" else ACQUIRABLE[name].read(text, name)


def to_text(values: Values) -> str:
    """Settings as TOML, always in the same order."""
    return "".join(f"{json.dumps(key) if '.' in key else key} = {json.dumps(values[key])}\n" for key in sorted(values))


def from_text(text: str, where: str) -> dict[str, Value]:
    """Settings from TOML; BadSetting says where it cannot be read. A key that this release does not know is kept."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadSetting(f"{where} is not TOML: {problem}", setting="configuration") from problem
    for key, value in values.items():
        known = ACQUIRABLE.get(key)
        kind = type(_DEFAULTS[known.field]) if known is not None else None
        if not isinstance(value, str | int | bool) or (kind is not None and type(value) is not kind):
            raise BadSetting(f"{where}: {key} = {value!r:.40} cannot be", setting=key)
    return values
