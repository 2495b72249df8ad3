"""Measure p: requests through an engine to two servers, beside a bare program that writes, syncs, sends to both and returns one.

    added     one client, durable requests: how much longer than a call of the server itself, against the bare program
    reads     declared reads against the bare program that writes nothing, and against a proxy on aiohttp; nginx, HAProxy and
              Envoy beside them, which send a request to two servers, or to one of two, and store nothing
    rate      32 clients, in the order of the domain; and by key against that order, with servers that take 5 ms
    trouble   a server hung, a server dead, an engine killed, a listener started again, a server that catches up

Parties of a comparison are measured in turns. The servers answer with a few bytes at once, so that nothing hides what is added.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal

from examples.free_port import free_port
from holdfast.continuity.domain import Domain, KeyRule, Route
from tests.bench.http_load import GOOD, NoAnswer, OneClient, latencies_ms, p50, p99, requests_a_second
from tests.bench.peer import CannotRun
from tests.bench.peers.domain import Part, RunningDomain, is_answered, multicast, small_server
from tests.bench.peers.mirrors import ENVOY, HAPROXY, NGINX, mirrors
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import Workshop

CLIENTS = 32
ONE_BY_ONE = 1_000
MANY = 10_000
SLOW_S = 0.005
KILL_AFTER_S = 0.1
SLOW_MANY = 3_000
WRITE, READ = "/k/0", "/r/0"
MIRRORS = (NGINX, HAPROXY, ENVOY)
# Reads of a hedged route go to one server, as those of the proxy do; to two by default, as those of the bare program.
HEDGED = "Holdfast, hedged"
HOLDFAST, BARE, BARE_READS, DIRECT, PROXY = "Holdfast", "bare, durable", "bare multicast", "the server itself", "aiohttp proxy"


def measure(workshop: Workshop) -> None:
    _beside_the_bare(workshop)
    _orders(workshop)
    _troubles(workshop)


def _domain(name: str, order: str = "domain", send: Literal["all", "hedged"] = "all") -> Domain:
    keys = (KeyRule(path="/k/([^/]+)"),) if order == "key" else ()
    return Domain(name=name, order=order, keys=keys, routes=(Route("/r/*", send=send),))  # type: ignore[arg-type]


def _key(number: int) -> str:
    return f"/k/{number % 256}"


# --- beside the bare program ---------------------------------------------------------------------------------------------


def _beside_the_bare(workshop: Workshop) -> None:
    workshop.tell("continuity: starting a domain and the bare program")
    folder = workshop.folder("continuity")
    with ExitStack() as stack:
        servers = [_started(stack, small_server(folder / name)) for name in ("server-a", "server-b")]
        ports = {DIRECT: servers[0].port}
        ports[BARE] = _started(stack, multicast(folder / "bare", servers, is_durable=True)).port
        ports[BARE_READS] = _started(stack, multicast(folder / "bare-reads", servers, is_durable=False)).port
        if importlib.util.find_spec("aiohttp") is None:
            workshop.results.left_out[PROXY] = "aiohttp is not installed"
        else:
            port = free_port()
            command = ["-m", "tests.bench.peers.aiohttp_proxy", str(port), str(servers[0].port)]
            ports[PROXY] = _started(stack, Part(folder / "proxy", command, port)).port
        mirrored = _started_mirrors(stack, workshop, folder, servers)
        ports |= mirrored
        running = stack.enter_context(RunningDomain(folder / "domain", _domain("bench"), servers))
        ports[HOLDFAST] = running.port
        hedged = [_started(stack, small_server(folder / f"hedged-{name}")) for name in ("a", "b")]
        ports[HEDGED] = stack.enter_context(RunningDomain(folder / "hedged", _domain("hedged", send="hedged"), hedged)).port
        _latencies(workshop, ports)
        _rates(workshop, ports)


def _started_mirrors(stack: ExitStack, workshop: Workshop, folder: Path, servers: list[Part]) -> dict[str, int]:
    """The ports of ready-made proxies that can be had here; the others are left out, with the reason."""
    ports = {}
    for name, (kind, where, before) in mirrors(folder, servers).items():
        try:
            ports[name] = _started(stack, kind(where, before)).port
        except CannotRun as reason:
            workshop.results.left_out[name] = str(reason)
    return ports


def _started(stack: ExitStack, part: Part) -> Part:
    stack.callback(part.kill)
    part.start()
    return part


def _latencies(workshop: Workshop, ports: dict[str, int]) -> None:
    workshop.tell("continuity: one client")
    count, results = workshop.scale.count(ONE_BY_ONE), workshop.results
    tails: dict[tuple[str, str], list[float]] = {}

    def run(who: str, method: str, path: str) -> float:
        taken = latencies_ms(ports[who], method, path, count)
        tails.setdefault((who, path), []).append(p99(taken))
        return p50(taken)

    writes = in_turns(workshop.scale.repetitions, {who: partial(run, who, "POST", WRITE) for who in (DIRECT, BARE, HOLDFAST)})
    parties = [who for who in (DIRECT, BARE_READS, PROXY, HOLDFAST, HEDGED, *MIRRORS) if who in ports]
    reads = in_turns(workshop.scale.repetitions, {who: partial(run, who, "GET", READ) for who in parties})
    results.note("p", "a durable request, p50", "ms", writes)
    results.note("p", "a durable request, p99", "ms", {who: tails[who, WRITE] for who in writes})
    results.note("p", "a declared read, p50", "ms", reads)
    ours, bare = _added(writes[HOLDFAST], writes[DIRECT]), _added(writes[BARE], writes[DIRECT])
    results.find("p", "durable: p50 added, against the bare program", ratios(ours, bare), Target(at_most=2.5))
    results.find("p", "durable: p50, against the bare program", ratios(writes[HOLDFAST], writes[BARE]))
    results.find(
        "p", "durable: p99, against the bare program", ratios(tails[HOLDFAST, WRITE], tails[BARE, WRITE]), Target(at_most=3)
    )
    results.find("p", "reads: p50, against the bare multicast", ratios(reads[HOLDFAST], reads[BARE_READS]), Target(at_most=2))
    if PROXY in reads:
        results.find("p", "reads: p50, against the aiohttp proxy", ratios(reads[HOLDFAST], reads[PROXY]), Target(at_most=1))
        results.find("p", "hedged reads: p50, against the aiohttp proxy", ratios(reads[HEDGED], reads[PROXY]))


def _added(whole: list[float], direct: list[float]) -> list[float]:
    return [mine - own for mine, own in zip(whole, direct, strict=True)]


def _rates(workshop: Workshop, ports: dict[str, int]) -> None:
    workshop.tell(f"continuity: {CLIENTS} clients")
    count, times, results = workshop.scale.count(MANY), workshop.scale.repetitions, workshop.results
    writes = in_turns(times, {
        who: partial(requests_a_second, ports[who], "POST", _key, count, CLIENTS) for who in (BARE, HOLDFAST)
    })  # fmt: skip
    parties = [who for who in (BARE_READS, PROXY, HOLDFAST, HEDGED, *MIRRORS) if who in ports]
    reads = in_turns(times, {
        who: partial(requests_a_second, ports[who], "GET", lambda _: READ, count, CLIENTS) for who in parties
    })  # fmt: skip
    results.note("p", f"durable requests of {CLIENTS} clients", "requests/s", writes)
    results.note("p", f"reads of {CLIENTS} clients", "requests/s", reads)
    results.find("p", "durable: rate, against the bare program", ratios(writes[HOLDFAST], writes[BARE]), Target(at_least=0.3))
    if PROXY in reads:
        results.find("p", "reads: rate, against the aiohttp proxy", ratios(reads[HOLDFAST], reads[PROXY]), Target(at_least=1.5))
        results.find("p", "hedged reads: rate, against the aiohttp proxy", ratios(reads[HEDGED], reads[PROXY]))


# --- orders --------------------------------------------------------------------------------------------------------------


def _orders(workshop: Workshop) -> None:
    """By key against the order of the domain, where servers take a while."""
    workshop.tell("continuity: order by key")
    folder, count = workshop.folder("orders"), workshop.scale.count(SLOW_MANY)
    counts = {"domain": max(50, count // 4), "key": count}
    with ExitStack() as stack:
        ports = {}
        for order in counts:
            servers = [_started(stack, small_server(folder / f"{order}-{name}", SLOW_S)) for name in ("a", "b")]
            ports[order] = stack.enter_context(RunningDomain(folder / order, _domain(order, order), servers)).port
        rates = in_turns(workshop.scale.repetitions, {
            order: partial(requests_a_second, ports[order], "POST", _key, counts[order], CLIENTS) for order in counts
        })  # fmt: skip
    workshop.results.note("p", "servers that take 5 ms", "requests/s", {f"in order by {order}": rates[order] for order in rates})
    workshop.results.find(
        "p", "order by key, against order of the domain", ratios(rates["key"], rates["domain"]), Target(at_least=6)
    )


# --- trouble -------------------------------------------------------------------------------------------------------------


def _troubles(workshop: Workshop) -> None:
    workshop.tell("continuity: trouble")
    folder, results = workshop.folder("trouble"), workshop.results
    count = workshop.scale.count(ONE_BY_ONE)
    with ExitStack() as stack:
        servers = [_started(stack, small_server(folder / f"server-{name}")) for name in ("a", "b")]
        running = stack.enter_context(RunningDomain(folder / "domain", _domain("trouble"), servers, engines=2))
        _server_in_trouble(workshop, running, count)
        worst = [_engine_killed(running) for _ in range(workshop.scale.repetitions)]
        results.find("p", "an engine killed: the worst wait of a client", worst, Target(at_most=0.5), "s")
        accepted, caught_up = _catching_up(running, workshop.scale.count(MANY))
        results.note("p", "a server that was away", "requests/s", {"accepted": [accepted], "caught up": [caught_up]})
        results.find("p", "catching up, against the rate of accepting", [caught_up / accepted], Target(at_least=1.5))
        restarted = _listener_restarted(running, workshop.scale.repetitions)
        results.find("p", "a listener started again, until it answers", restarted, Target(at_most=1), "s")


def _server_in_trouble(workshop: Workshop, running: RunningDomain, count: int) -> None:
    server, results = running.servers["a"], workshop.results
    before = p50(latencies_ms(running.port, "POST", WRITE, count))
    os.kill(server.pid, signal.SIGSTOP)
    hung = p50(latencies_ms(running.port, "POST", WRITE, count))
    os.kill(server.pid, signal.SIGCONT)
    _until_current(running)
    again = p50(latencies_ms(running.port, "POST", WRITE, count))
    server.kill()
    dead = p50(latencies_ms(running.port, "POST", WRITE, count))
    server.start()
    _until_current(running)
    results.note(
        "p", "a durable request, p50", "ms", {"both servers there": [before, again], "one hung": [hung], "one dead": [dead]}
    )
    results.find("p", "a server hung: p50, against before", [hung / before], Target(at_most=1.1))
    results.find("p", "a server dead: p50, against before", [dead / again], Target(at_most=1.1))


def _until_current(running: RunningDomain) -> None:
    running.until(lambda: len(running.current()) == len(running.servers), running.engines[0])


def _engine_killed(running: RunningDomain) -> float:
    """Kill the first engine among requests of a client that knows both; its worst wait in seconds."""
    clients, worst = [OneClient(each.port, timeout_s=0.3) for each in running.engines], 0.0
    killing = threading.Timer(KILL_AFTER_S, running.engines[0].kill)
    killing.start()
    while killing.is_alive() or clients[0].port == running.port:
        begun, key, tries = time.perf_counter(), uuid.uuid4().hex, 0
        while True:
            tries += 1
            try:
                if clients[0].ask("POST", WRITE, key)[0] in GOOD:
                    break
            except NoAnswer:
                clients.reverse()
            if tries > 100:
                raise RuntimeError("a request is not answered by any engine")
        worst = max(worst, time.perf_counter() - begun)
    killing.join()
    running.engines[0].start()
    running.until(lambda: is_answered(running.port), running.engines[0])
    return worst


def _catching_up(running: RunningDomain, count: int) -> tuple[float, float]:
    """The rate at which requests are accepted while a listener is away, and the rate at which it makes up for them."""
    server = OneClient(running.servers["b"].port)

    def answered() -> int:
        return int(server.ask("GET", "/count")[1])

    running.listeners["b"].stop()
    accepted = requests_a_second(running.port, "POST", _key, count, CLIENTS)
    missed = answered()
    running.listeners["b"].start()
    running.until(lambda: answered() > missed, running.listeners["b"])
    first, begun = answered(), time.perf_counter()
    while (now := answered()) < missed + count:
        if time.perf_counter() - begun > 120:
            raise RuntimeError(f"the server has {now - missed} of {count} requests that it missed")
        time.sleep(0.01)
    return accepted, (now - first) / (time.perf_counter() - begun)


def _listener_restarted(running: RunningDomain, times: int) -> list[float]:
    """Seconds from the start of the only listener until a request is answered."""
    running.listeners["b"].stop()
    taken = []
    for _ in range(times):
        running.listeners["a"].kill()
        begun = time.perf_counter()
        running.listeners["a"].start()
        while not is_answered(running.port):
            if time.perf_counter() - begun > 60:
                raise RuntimeError("the listener does not answer")
            time.sleep(0.005)
        taken.append(time.perf_counter() - begun)
    return taken
