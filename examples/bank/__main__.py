"""The account of a bank with two servers, one of which is killed and comes back.

    python -m examples.bank [--quick] [--plot bank.png]

Joe has 500, and deposits 250: both servers say 750. Then clients deposit 1 again and again. Server b is killed with SIGKILL, and
later started again on its own file. Clients notice nothing but a short wait; at the end the balance is right at both servers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from examples.bank import picture
from examples.bank.clients import Client, Load, Observer
from examples.bank.processes import NAMES, Bank

NAME = "joe"
PRIOR, DEPOSIT = 500, 250
CLIENTS = 4
EVEN_S_MAX = 60.0


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m examples.bank", description="Two servers, one killed, the balance right.")
    options.add_argument("--quick", action="store_true", help="Take about ten seconds, not thirty.")
    options.add_argument("--plot", type=Path, metavar="FILE", help="Draw what happened into this PNG file.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bank-") as folder, Bank(Path(folder)) as bank:
        return _run(bank, 1.5 if given.quick else 8.0, given.plot)


def _run(bank: Bank, pause_s: float, plot: Path | None) -> int:
    joe = Client(bank.port)
    joe.deposit(NAME, PRIOR)
    joe.deposit(NAME, DEPOSIT)
    print(f"{PRIOR} and {DEPOSIT} are deposited through {bank.url}: the balance is {joe.balance(NAME)}")
    observers = {name: Observer(bank.ports[name], NAME) for name in NAMES}
    load = Load(bank.port, NAME, CLIENTS)
    try:
        time.sleep(pause_s)
        bank.kill_server("b")
        killed = time.time()
        print(f"server b is killed after {len(load.deposits):,} deposits of {CLIENTS} clients")
        time.sleep(pause_s)
        before = len(load.deposits)
        bank.start_server("b")
        started = time.time()
        print(f"server b is started again after {before:,} deposits")
        time.sleep(pause_s)
    finally:
        load.stop()
    expected = PRIOR + DEPOSIT + len(load.deposits)
    balances = _balances(bank, expected)
    for each in observers.values():
        each.stop()
    return _tell(load, balances, expected, (killed, started), {name: each.seen for name, each in observers.items()}, plot)


def _balances(bank: Bank, expected: int) -> dict[str, int | None]:
    """The balance at each server itself, when both have it right, or had the time to."""
    deadline = time.monotonic() + EVEN_S_MAX
    servers = {name: Client(bank.ports[name]) for name in NAMES}
    while True:
        balances = {name: each.balance(NAME) for name, each in servers.items()}
        if set(balances.values()) == {expected} or time.monotonic() > deadline:
            return balances
        time.sleep(0.1)


def _tell(
    load: Load,
    balances: dict[str, int | None],
    expected: int,
    away: tuple[float, float],
    seen: dict[str, list[tuple[float, int]]],
    plot: Path | None,
) -> int:
    waits = sorted(each.seconds for each in load.deposits)
    is_right = set(balances.values()) == {expected}
    print(f"deposits answered: {len(load.deposits):,}, repeated: {sum(each.tries > 1 for each in load.deposits)}, "
          f"failed: {len(load.failed)}")  # fmt: skip
    print(f"waits: p50 {waits[len(waits) // 2] * 1000:.1f} ms, p99 {waits[len(waits) * 99 // 100] * 1000:.1f} ms, "
          f"longest {waits[-1] * 1000:.0f} ms")  # fmt: skip
    print(f"balance: {expected:,} expected, " + ", ".join(f"{told:,} at {name}" for name, told in balances.items() if told))
    print("The balance is right at both servers." if is_right else "THE BALANCE IS WRONG.")
    if plot is not None:
        picture.draw(seen, load.deposits, away, f"{len(load.deposits):,} deposits; b killed and started again", plot)
        print(f"drawn into {plot}")
    return 0 if is_right and not load.failed else 1


if __name__ == "__main__":
    sys.exit(main())
