"""`holdfast cluster up`: real NATS servers and nodes, one of which is killed; ended, and started again with what was there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.cli.cluster import run_lock
from tests.command import run_holdfast
from tests.waiting import until

pytestmark = pytest.mark.faults


def _run(*arguments: str) -> Any:
    done = run_holdfast("cluster", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


async def test_a_cluster_comes_up_outlives_its_primary_and_comes_up_again(tmp_path: Path) -> None:
    data = str(tmp_path / "cluster")
    try:
        told = _run("up", "--data", data, "--nodes", "2", "--managers", "2", "--detach")
        assert [each["program"] for each in told["programs"]] == ["nats1", "nats2", "nats3", "node1", "node2"]
        async with holdfast.connect(told["url"], timeout=60) as client:
            status = await client.cluster_status()
            first, second = status["managers"]
            assert status["silent"] == first["missing"] == second["missing"] == []
            assert (first["name"], second["name"]) == ("m1", "m2")
            primary, epoch = first["primary"], first["epoch"]
            await client.queue("orders").send("before", timeout=60)

            os.kill(next(each["pid"] for each in told["programs"] if each["program"] == primary), signal.SIGKILL)
            await client.queue("orders").send("after", timeout=60)

            async def is_whole_again() -> bool:
                now = await client.cluster_status()
                is_whole = not now["silent"] and not any(each["missing"] for each in now["managers"])
                return is_whole and now["managers"][0]["epoch"] > epoch

            await until(is_whole_again, "the dead node is started again, and another is primary")

        again = run_holdfast("cluster", "up", "--data", data)
        assert again.returncode == 3
        assert "runs already" in again.stderr

        assert _run("down", "--data", data)["ended"]
        assert run_lock.holder(tmp_path / "cluster") is None
        assert not _run("down", "--data", data)["ended"]

        assert _run("up", "--data", data, "--detach")["url"] == told["url"]
        async with (
            holdfast.connect(told["url"], timeout=60) as client,
            client.queue("orders").receive() as incoming,
        ):
            assert [(await incoming.next(60)).data for _ in range(2)] == ["before", "after"]
    finally:
        run_holdfast("cluster", "down", "--data", data)


async def test_a_server_that_is_alone_has_no_cluster_to_show() -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(holdfast.Refused, match="this server is alone"):
            await client.cluster_status()
