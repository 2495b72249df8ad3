"""What waiting events cost the destination machines: memory, snapshots, deletion, and time per batch as the backlog grows.

    python -m tests.bench.machine_memory [batches]        ten million by default; takes about a minute and 500 MB

Memory is the growth of this process (resident), each case in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.command import Create, Delete
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.event.position import Ranges, of
from tests.machines import Manager

Figures = dict[str, float]


def resident_mb() -> float:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * 4096 / 1e6


def one_event_batches(count: int) -> Figures:
    before, begun = resident_mb(), time.process_time()
    backlog = Backlog()
    for entry in range(1, count + 1):
        backlog.place(entry, 1)
    return {"MB": resident_mb() - before, "µs a batch placed": (time.process_time() - begun) / count * 1e6}


def every_second_of_batches_of_100(count: int) -> Figures:
    before, begun = resident_mb(), time.process_time()
    backlog = Backlog()
    for entry in range(1, count // 100 + 1):
        backlog.place(entry, 100)
        backlog.finish(Ranges.of(*((of(entry, index), of(entry, index)) for index in range(0, 100, 2))))
    return {"MB": resident_mb() - before, "µs an event confirmed": (time.process_time() - begun) / (count / 2) * 1e6}


def deliver_and_confirm(count: int, events: int) -> Figures:
    backlog = Backlog()
    for entry in range(1, count + 1):
        backlog.place(entry, events)
    delivery = Delivery(backlog)
    delivery.attach(("ann", 1), Ranges())
    delivery.grant(("ann", 1), count * events, 1)
    begun = time.process_time()
    while (handout := delivery.next(0)) is not None:
        last = handout.slices[-1]
        delivery.finished(backlog.finish(Ranges.of((handout.slices[0].first, last.first + last.events - 1))))
    return {"µs a batch": (time.process_time() - begun) / count * 1e6, "left": backlog.waiting}


def snapshot_and_restore(count: int) -> Figures:
    manager = queue_with(count)
    times = [time.process_time()]
    chunks = list(manager.directory.snapshot())
    times.append(time.process_time())
    Directory.restore(chunks)
    times.append(time.process_time())
    manager.directory.digest()
    times.append(time.process_time())
    manager.directory.oldest_needed()
    times.append(time.process_time())
    names = ("s to take", "s to restore", "s to digest", "s for the oldest needed")
    durations = [end - begun for begun, end in pairwise(times)]
    return {"MB": sum(map(len, chunks)) / 1e6, **dict(zip(names, durations, strict=True))}


def deletion(count: int) -> Figures:
    manager = queue_with(count)
    before, begun = resident_mb(), time.process_time()
    manager.ask(Delete("orders"))
    return {"MB": resident_mb() - before, "µs a batch moved": (time.process_time() - begun) / count * 1e6}


def queue_with(count: int) -> Manager:
    manager = Manager()
    manager.ask(Create("orders", "queue"))
    backlog = manager.directory.backlog(("orders", ""))
    for entry in range(2, count + 2):
        backlog.place(entry, 1)
    return manager


def report(title: str, measured: Callable[..., Figures], *arguments: int) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        figures = pool.apply(measured, arguments)
    print(f"{title:<62}", "  ".join(f"{value:,.2f} {name}" for name, value in figures.items()), flush=True)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    report(f"{count:,} one-event batches waiting", one_event_batches, count)
    report(f"{count:,} events in batches of 100, every second confirmed", every_second_of_batches_of_100, count)
    for waiting in (count // 100, count // 10):
        report(f"deliver and confirm {waiting:,} one-event batches", deliver_and_confirm, waiting, 1)
    report(f"deliver and confirm {count // 100:,} batches of 100", deliver_and_confirm, count // 100, 100)
    report(f"snapshot of {count:,} one-event batches", snapshot_and_restore, count)
    report(f"deleting a queue with {count // 10:,} one-event batches", deletion, count // 10)


if __name__ == "__main__":
    main()
