"""See a service go on: three servers behind an engine, under load, while each of them fails in turn.

    python -m examples.continuity_demo [--quick]          about half a minute; exit code 1 if anything failed or is wrong

Clients deposit into one account of a bank, again and again. Server a hangs, b is killed and comes back, c begins to lie and is
found out by the others, and d, a new version, first runs as a shadow: it gets every request, is compared, and answers nobody. At
the end the account is compared with what the clients were told.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from examples.bank.clients import Client, Load
from examples.bank.processes import Bank

ACCOUNT = "joe"
CLIENTS = 4
EVEN_S_MAX = 60.0
LOOK_S = 0.2


class Story:
    def __init__(self, bank: Bank, pause_s: float) -> None:
        self._bank = bank
        self._pause_s = pause_s
        self._load = Load(bank.port, ACCOUNT, CLIENTS)
        self._told = 0

    def tell(self, what: str) -> None:
        """Let it run for a while; how long clients waited meanwhile."""
        time.sleep(self._pause_s)
        deposits = self._load.deposits
        waits = sorted(each.seconds for each in deposits[self._told :]) or [0.0]
        self._told = len(deposits)
        p50, p99 = waits[len(waits) // 2] * 1000, waits[len(waits) * 99 // 100] * 1000
        print(f"{what:<46} {len(waits):>6,} deposits   p50 {p50:5.1f} ms   p99 {p99:6.1f} ms", flush=True)

    def run(self) -> int:
        bank = self._bank
        try:
            self.tell("three servers")
            bank.hang_server("a", True)
            self.tell("a hangs")
            bank.hang_server("a", False)
            bank.kill_server("b")
            self.tell("a goes on; b is killed")
            bank.start_server("b")
            self.tell("b is started again, and catches up")
            bank.start_server("d")
            bank.start_listener("d", "shadow")
            self.tell("d, a new version, follows as a shadow")
            bank.kill_server("c")
            bank.start_server("c", "--lie")
            self.tell("c lies")
        finally:
            self._load.stop()
        return self._end()

    def _end(self) -> int:
        expected = len(self._load.deposits)
        balances = self._balances(expected)
        status = self._bank.status()
        states = ", ".join(f"{each['server']} {each['state']}" for each in status["servers"])
        is_right = set(balances.values()) == {expected}
        repeated = sum(each.tries > 1 for each in self._load.deposits)
        print(f"requests {expected:,}, repeated by clients {repeated}, failed {len(self._load.failed)}")
        print(f"the account: {expected:,} expected; " + ", ".join(f"{told:,} at {name}" for name, told in balances.items()))
        print(f"disagreements {status['disagreements']:,}; servers: {states}; level: {status['level']}")
        print("Nothing failed, and nothing counted twice." if is_right and not self._load.failed else "SOMETHING IS WRONG.")
        return 0 if is_right and not self._load.failed and status["disagreements"] else 1

    def _balances(self, expected: int) -> dict[str, int]:
        """The balance at each server itself, when all are equal, or had the time to be; not at c, which lies."""
        deadline = time.monotonic() + EVEN_S_MAX
        servers = {name: Client(port) for name, port in self._bank.ports.items()}
        while True:
            balances = {name: each.balance(ACCOUNT) or 0 for name, each in servers.items() if name != "c"}
            if set(balances.values()) == {expected} or time.monotonic() > deadline:
                return balances
            time.sleep(LOOK_S)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m examples.continuity_demo", description="A service that goes on.")
    options.add_argument("--quick", action="store_true", help="Take about fifteen seconds, not forty.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bank-") as folder, Bank(Path(folder), ("a", "b", "c")) as bank:
        return Story(bank, 1.5 if given.quick else 5.0).run()


if __name__ == "__main__":
    sys.exit(main())
