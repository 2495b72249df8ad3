"""Ctrl-C in a program that is made as the examples are: it ends in good order, and prints no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from tests import effort
from tests.server_process import ServerProcess

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = ["first_program", "work_queue", "request_reply", "price_ticker", "order_saga", "file_transfer"]
# Runs a program and presses Ctrl-C a moment after it has begun.
PRESS = """
import asyncio, runpy, signal, sys
delay, program = float(sys.argv[1]), sys.argv[2]
run = asyncio.Runner.run
def begin(runner, main, **more):
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        return run(runner, main, **more)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
asyncio.Runner.run = begin
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
"""
RECEIVING = {
    "holdfast.run": """
import sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue(sys.argv[2]).receive() as incoming:
        async for event in incoming:
            if event.data == "one":
                await event.confirm()
            print(event.data, flush=True)

holdfast.run(main())
""",
    "asyncio.run": """
import asyncio, contextlib, sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue(sys.argv[2]).receive() as incoming:
        async for event in incoming:
            if event.data == "one":
                await event.confirm()
            print(event.data, flush=True)

with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
""",
    "blocking": """
import contextlib, sys, holdfast

with (
    contextlib.suppress(KeyboardInterrupt),
    holdfast.blocking.connect(sys.argv[1]) as client,
    client.queue(sys.argv[2]).receive() as incoming,
):
    for event in incoming:
        if event.data == "one":
            event.confirm()
        print(event.data, flush=True)
""",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("interrupted") / "data") as process:
        yield process


@pytest.mark.parametrize("delay_s", [0.001, 0.05])
@pytest.mark.parametrize("name", effort.cases(EXAMPLES[:3], long=EXAMPLES[3:]))
def test_an_example_that_is_interrupted_says_nothing(name: str, delay_s: float, tmp_path: Path) -> None:
    program = str(TOP / "examples" / f"{name}.py")

    done = subprocess.run(
        [sys.executable, "-c", PRESS, str(delay_s), program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.stderr == ""
    assert done.returncode in (0, 130)  # 0: it was quicker


def test_the_boot_recorder_that_is_interrupted_says_nothing_and_leaves_no_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", str(TOP / "examples" / "boot_recorder.py")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        for line in program.stdout:
            if line.startswith("server: "):
                program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)

    assert "Traceback" not in errors
    assert program.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", RECEIVING)
def test_a_recipient_that_is_interrupted_says_nothing_and_what_it_did_not_confirm_comes_again(
    how: str, server: ServerProcess
) -> None:
    queue = f"jobs-{how}"
    with holdfast.blocking.connect(server.url) as client:
        client.queue(queue).send_many(["one", "two"])
        with subprocess.Popen(
            [sys.executable, "-c", RECEIVING[how], server.url, queue], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            assert [program.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=30)

        assert errors == ""
        assert program.returncode == (130 if how == "holdfast.run" else 0)
        with client.queue(queue).receive(timeout=10) as incoming:
            again = incoming.next()
            assert (again.data, again.redelivered) == ("two", True)
            again.confirm()


def test_a_recipient_that_is_told_to_terminate_says_nothing_and_what_it_did_not_confirm_comes_again(
    server: ServerProcess,
) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.queue("terminated").send_many(["one", "two"])
        with subprocess.Popen(
            [sys.executable, "-c", RECEIVING["holdfast.run"], server.url, "terminated"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as program:  # fmt: skip
            assert program.stdout is not None
            assert [program.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
            program.send_signal(signal.SIGTERM)
            _, errors = program.communicate(timeout=30)

        assert (errors, program.returncode) == ("", 143)
        with client.queue("terminated").receive(timeout=10) as incoming:
            again = incoming.next()
            assert (again.data, again.redelivered) == ("two", True)
            again.confirm()


def test_a_second_sigterm_does_not_wait_for_the_first() -> None:
    program = """
import asyncio, holdfast

async def main():
    print("runs", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("ends", flush=True)
        await asyncio.Event().wait()

holdfast.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in ("runs\n", "ends\n"):
            assert running.stdout.readline() == line
            running.send_signal(signal.SIGTERM)

        assert running.wait(timeout=30) == -signal.SIGTERM


def test_a_program_that_handles_sigterm_itself_goes_on_doing_so() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))

    async def main() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "its end"

    try:
        assert holdfast.run(main()) == "its end"
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_main_returns_is_returned_and_what_it_raises_is_raised() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> None:
        raise ValueError("its own")

    assert holdfast.run(answer()) == 7
    with pytest.raises(ValueError, match="its own"):
        holdfast.run(fail())
