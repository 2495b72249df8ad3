"""The status of a domain: what its engines and listeners say at a roll call, put together.

    level       continuous, fault-tolerant, single or stopped, as the members and their sites allow
    servers     site, role, state, lag, how often it was first, what is in doubt, keys kept, what is held against it
    engines     how many there are, and how many are ready
    carriers    who carries effects out: how many wait, are under way, are in doubt, and how many results are kept
    attention   what an operator is to look at, and what to do

The log of requests is at one site until there is a cluster: so the level is never called continuous before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.client.client import Client
from holdfast.continuity import register, roll_call

CARRIER = ("name", "waiting", "under_way", "in_doubt", "results", "in_doubt_keys")
COUNTED = ("requests", "reads", "answered", "refused", "not_answered", "disagreements", "under_way")


async def ask(client: Client, name: str) -> dict[str, Any]:
    """The status, from everyone who answers within a second."""
    domain = await register.read(client, name)
    parts = await roll_call.ask(client, domain.name)
    return summary(domain.name, domain.servers_min, parts)


def summary(name: str, servers_min: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    engines = [each for each in parts if each["part"] == "engine"]
    listeners = {each["name"]: each for each in parts if each["part"] == "listener"}
    carriers = [{name: each[name] for name in CARRIER} for each in parts if each["part"] == "carrier"]
    seen = {each["server"]: each for engine in engines for each in engine["servers"]}
    servers = [_server(server, listeners.get(server, {}), engines) for server in sorted({*listeners, *seen})]
    current = [each for each in servers if each["state"] == "current" and each["role"] == "server"]
    return {
        "domain": name,
        "level": level(len(current), {each["site"] for each in current}, {each["site"] for each in engines}, servers_min),
        "engines": len(engines),
        "engines_ready": sum(each["is_ready"] for each in engines),
        **{count: sum(each.get(count, 0) for each in engines) for count in COUNTED},
        "servers": servers,
        "carriers": carriers,
        "attention": [
            *(sentence for each in servers for sentence in _attention(each)),
            *(sentence for each in carriers for sentence in _in_doubt(each)),
        ],
    }


def _server(name: str, told: dict[str, Any], engines: list[dict[str, Any]]) -> dict[str, Any]:
    seen = [each for engine in engines for each in engine["servers"] if each["server"] == name]
    known = told or (seen[0] if seen else {})
    return {
        "server": name,
        "site": known.get("site", ""),
        "role": known.get("role", "server"),
        "state": known.get("state", "silent"),
        "finished": known.get("finished", 0),
        "lag": max((each["lag"] for each in seen), default=known.get("lag", 0)),
        "first": sum(each["first"] for each in seen),
        "in_doubt": known.get("in_doubt", 0),
        "keys": known.get("keys", 0),
        "needs_rebuild": known.get("needs_rebuild", ""),
        "unknown": known.get("unknown", ""),
        "held_against": _held_against([engine.get("kinds", {}).get(name, {}) for engine in engines]),
    }


def _attention(server: dict[str, Any]) -> Iterator[str]:
    """What an operator is to look at, and what to do."""
    if server["needs_rebuild"]:
        yield (
            f"server {server['server']} is called no more and must be rebuilt: {server['needs_rebuild']}. Start its listener with"
            " --reset COMMAND, which makes the server empty or takes it back to a snapshot"
        )
    if server["unknown"]:
        yield (
            f"the state of server {server['server']} is unknown: {server['unknown']}. Start its listener with --probe PATH, or"
            " have it rebuilt"
        )


def _in_doubt(carrier: dict[str, Any]) -> Iterator[str]:
    for key in carrier["in_doubt_keys"]:
        yield f"nobody can tell whether effect {key} was carried out. Look at the far side, and say `holdfast domain settle`"


def _held_against(told: list[dict[str, int]]) -> dict[str, int]:
    """What engines hold against a server (26): wrong, late, silent, link lost, in doubt; and how often."""
    return {kind: sum(each.get(kind, 0) for each in told) for kind in sorted({kind for each in told for kind in each})}


def level(current: int, server_sites: set[str], engine_sites: set[str], servers_min: int, log_sites: int = 1) -> str:
    """How much may fail (33). Continuous: a whole site, the log and the engines included."""
    if current < servers_min or not current:
        return "stopped"
    if len(server_sites) > 1 and len(engine_sites) > 1 and log_sites > 1:
        return "continuous"
    return "fault-tolerant" if current > 1 else "single"
