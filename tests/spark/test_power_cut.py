"""D1: the power fails while a query archives events. Spark syncs neither its checkpoint nor its output, so what it wrote last is
gone, or torn: what was confirmed is in the table all the same, and the query goes on from what is left, each event once."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.spark.java import find_java
from holdfast.spark.lake.table import Lake
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.killed_query import SUBSCRIPTION, TOPICS
from tests.spark.killing import SERVER, check_each_once, is_confirmed_to_the_head
from tests.spark.lives import PATIENCE_S, Life
from tests.spark.own_disk import OwnDisk
from tests.spark.producing import TOPICS as NAMES

SEED = 20_261_117
CUTS = effort.rounds(short=1, long=2)
COPIES = effort.rounds(short=2, long=4)  # of the disk, before each cut
EVENTS = effort.rounds(short=1_200, long=2_500)  # sent before each cut: more than are read until then
# A batch that is planned again is another one: a plan that is lost although its batch is in the table would be noticed.
BATCH_EVENTS = (50, effort.rounds(short=100, long=150))
MOMENT_S_MAX = 0.5
COMMIT_S_MAX = 0.03


class PowerCuts:
    def __init__(self, server: ServerProcess, folder: Path, sync: str = "local") -> None:
        self._server = server
        self._folder = folder
        self._sync = sync
        self._place = folder / "disk"
        self._dice = random.Random(effort.seed(SEED))
        self.sent: list[int] = []

    def run(self) -> list[int]:
        """All cuts; what the table holds after the query has caught up on what the last one left."""
        disk = OwnDisk.new(self._folder / "image", self._place)
        for cut in range(CUTS):
            with disk:
                disk = self._cut(disk, cut)
        with disk:
            with self._life("once") as last:
                last.end()
            return table(self._place / "lake")

    def _cut(self, disk: OwnDisk, cut: int) -> OwnDisk:
        """The query goes on for a while; the disk as it was when the power failed."""
        self._send()
        with self._life("on") as life:
            for copy in range(COPIES):
                life.wait_for(self._dice.randint(1, 4))
                self._wait_for_moment(is_after_commit=copy % 2 == 1)
                image = self._copy(disk, life, f"{cut}-{copy}")
                if copy < COPIES - 1:
                    life.go_on()
                    image.unlink()
        return OwnDisk(image, self._place)

    def _wait_for_moment(self, *, is_after_commit: bool) -> None:
        """Any; or right after the table has a new version, before Spark has written down that it has."""
        if is_after_commit:
            versions, patience = self._versions(), time.monotonic() + PATIENCE_S
            while self._versions() == versions:
                assert time.monotonic() < patience, "the table gets no new version"
        time.sleep(self._dice.random() * (COMMIT_S_MAX if is_after_commit else MOMENT_S_MAX))  # part of what is tried

    def _versions(self) -> set[str]:
        return {each.name for each in (self._place / "lake" / "_delta_log").glob("*.json")}

    def _copy(self, disk: OwnDisk, life: Life, name: str) -> Path:
        """A copy holds what was confirmed until then, whatever was under way."""
        image, looked_at = self._folder / name, self._folder / f"{name}-looked-at"
        life.stop()
        disk.copied(image)
        shutil.copyfile(image, looked_at)
        confirmed = set(self.sent) - self._waiting()
        with OwnDisk(looked_at, self._folder / "looked-at") as copy:
            held = table(copy.place / "lake")
        print(f"copy {name}: {life.batches()} batches, {len(confirmed)} confirmed, {len(held)} in the table", flush=True)
        missing = sorted(confirmed - set(held))
        assert not missing, f"{len(missing)} of {len(confirmed)} confirmed events are not in the table: {missing[:10]}"
        assert len(set(held)) == len(held)
        looked_at.unlink()
        return image

    def _life(self, mode: str) -> Life:
        events = str(self._dice.randint(*BATCH_EVENTS))
        return Life("lake", self._server.url, self._place, self._folder / "query.log", mode, events, self._sync)

    def _send(self) -> None:
        numbers = range(len(self.sent), len(self.sent) + EVENTS)
        with blocking.connect(self._server.url) as client:
            if not self.sent:
                client.create_subscription(TOPICS, SUBSCRIPTION)
            for topic, each in zip(NAMES, (numbers[0::3], numbers[1::3], numbers[2::3]), strict=True):
                client.topic(topic).send_many([b"%d" % number for number in each])
        self.sent += numbers

    def _waiting(self) -> set[int]:
        """What the server still has for the query."""
        with blocking.connect(self._server.url) as client:
            reading = client.reading(TOPICS, SUBSCRIPTION)
            extent = reading.extent()
            slices = reading.slices(extent.start, extent.newest)
            return {int(bytes(each.batch.body(index))) for each in slices for index in range(each.events)}


def table(folder: Path) -> list[int]:
    """What is in it; nothing before its first version."""
    found = Lake(str(folder)).table_or_none()
    return [] if found is None else [int(data) for data in found.to_pyarrow_table(columns=["data"]).column("data").to_pylist()]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_after_a_power_cut_nothing_confirmed_is_missing_from_the_table_and_the_query_goes_on_each_event_once(
    tmp_path: Path,
) -> None:
    find_java()
    with ServerProcess(tmp_path / "data", *SERVER) as server:
        cuts = PowerCuts(server, tmp_path)

        held = cuts.run()

        check_each_once(held, cuts.sent)
        assert is_confirmed_to_the_head(server)
