"""Rules at a server with users: which rights they need, and how they log in without a password in their file (A10, E7)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.actions import Actions
from holdfast.actions.rules_file import parse
from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from tests.server_process import ServerProcess
from tests.waiting import until

SECRET = "rules-s3cret"
ACCESS = """
[[access]]
who = "rules"
destination = "actions.guard.**"
actions = ["send", "receive", "browse", "manage"]

[[access]]
who = "rules"
destination = "orders.**"
actions = ["receive", "manage"]

[[access]]
who = "rules"
destination = "incidents"
actions = ["send"]

[[access]]
who = "shop"
destination = "**"
actions = ["send", "receive", "browse", "manage"]
"""
RULES = """
name = "guard"
url = "holdfast://rules:${env:RULES_PASSWORD}@127.0.0.1:PORT"
[rules.failed]
topics = ["orders.>"]
count = 2
within = "1m"
actions = [{ do = "send", queue = "incidents", text = "{count} failed" }]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("access")
    users = folder / "users.toml"
    users_file.add(users, "rules", hashed(SECRET))
    users_file.add(users, "shop", hashed("shop-password"))
    with users.open("a") as file:
        file.write(ACCESS)
    with ServerProcess(folder / "data", "--users", str(users)) as made:
        yield made


async def test_rules_need_receive_and_manage_for_their_topics_and_everything_for_their_own(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULES_PASSWORD", SECRET)
    rules = parse(RULES.replace("PORT", str(server.port)), Path())
    shop = f"holdfast://shop:shop-password@127.0.0.1:{server.port}"
    async with holdfast.connect(shop) as client, client.queue("incidents").receive() as incidents:
        for life in range(2):
            async with Actions(rule_set=rules) as actions:
                working = asyncio.create_task(actions.run())
                await client.topic("orders.eu").send_many(["failed"] * 2)
                incident = await incidents.next(30)
                assert incident.data == "2 failed"
                await incident.confirm()
                actions.stop()
                await working
            rules = parse(RULES.replace("PORT", str(server.port)).replace("1m", f"{life + 2}m"), Path())


async def test_rules_that_may_not_read_a_topic_are_refused_with_a_sentence(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES.replace("PORT", str(server.port)).replace("orders.>", "secrets.>"))

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "holdfast", "actions", str(file)],
        env={**os.environ, "RULES_PASSWORD": SECRET}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 1
    assert "user 'rules' may not manage 'secrets.>'" in done.stderr
    assert SECRET not in done.stderr


async def test_a_child_of_a_server_with_users_logs_in_as_its_rules_say(tmp_path: Path, server: ServerProcess) -> None:
    """The rules name a user and a reference to its password; the server's own address is not used."""
    file = tmp_path / "rules.toml"
    file.write_text(RULES.replace("PORT", str(server.port)))
    other = ServerProcess(tmp_path / "other", "--actions", str(file))
    os.environ["RULES_PASSWORD"] = SECRET
    try:
        with other:
            shop = f"holdfast://shop:shop-password@127.0.0.1:{server.port}"
            await until(lambda: "1 rule of guard at work" in other.log, "the rules are at work")
            async with holdfast.connect(shop) as client, client.queue("incidents").receive() as incidents:
                await client.topic("orders.eu").send_many(["failed"] * 2)
                assert (await incidents.next(30)).data == "2 failed"
    finally:
        del os.environ["RULES_PASSWORD"]
    assert SECRET not in other.log
