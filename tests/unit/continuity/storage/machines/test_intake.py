"""What a place does next: however often it is killed, robbed of its disk or put back, it applies every write once, in order."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.continuity.storage.machines.intake import Intake, beginning


def test_a_place_goes_on_only_with_a_disk_that_has_all_that_was_confirmed() -> None:
    for is_subscribed, mark, told, has_peer in itertools.product((True, False), (0, 4, 5, 6), (None, 0, 5), (True, False)):
        is_trusted = is_subscribed and told is not None and mark >= told
        wanted = "go on" if is_trusted else "copy" if has_peer else "wait"
        assert beginning(is_subscribed, mark, told, ["b"] if has_peer else []) == wanted


class Topic:
    """The order of events, by position; positions do not ascend in it."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def send(self) -> int:
        count = len(self.order)
        position = count * 10 + (7 if count % 3 else -7)  # now and then below the one before
        self.order.append(position)
        return position


class Disk:
    """What a place has on disk: the state, here the events that were applied, in order; and the positions that it knows as done,
    which are not all of them: a copy tells only those from the join on."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.done: set[int] = set()
        self.passing_until: int | None = None

    def copy(self) -> Disk:
        made = Disk()
        made.applied, made.done, made.passing_until = list(self.applied), set(self.done), self.passing_until
        return made


class Life:
    """A place with a subscription, beside another that has applied everything."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.disk, self.old = Disk(), Disk()
        self.confirmed = 0  # events of the topic, a prefix
        self.received = 0  # of this life, after the confirmed ones
        self.mark_told = 0
        self.intake: Intake | None = None

    def begin(self) -> None:
        how = beginning(True, len(self.disk.applied), self.mark_told, ["b"])
        join = self.topic.send()
        if how == "copy":
            self.topic.send()  # the other one is past the join
            self.disk.applied = list(self.topic.order)
            self.disk.done |= set(self.topic.order[self.topic.order.index(join) :])
            self.disk.passing_until = join
            self.mark_told = len(self.disk.applied)
        self.received = self.confirmed
        self.intake = Intake(self.disk.passing_until)

    def receive(self) -> None:
        if self.intake is None or self.received == len(self.topic.order):
            return
        position = self.topic.order[self.received]
        step = self.intake.judge(position, position in self.disk.done)
        if step.has_passed:
            self.disk.passing_until = None
        if step.what == "apply":
            self.disk.applied.append(position)
            self.disk.done.add(position)
        self.received += 1

    def confirm(self) -> None:
        self.mark_told = max(self.mark_told, len(self.disk.applied))
        self.confirmed = max(self.confirmed, self.received)

    def kill(self) -> None:
        self.intake = None
        self.received = self.confirmed

    def put_back(self) -> None:
        """The disk is that of an earlier moment."""
        self.kill()
        self.disk = self.old.copy()


STEPS = st.sampled_from(["write", "write", "receive", "receive", "receive", "confirm", "kill", "begin", "image", "put back"])


@given(st.lists(STEPS, max_size=60))
@example(
    ["begin", "receive", "confirm", "put back", "write"]
)  # a write waits that the copy contains, and its positions do not tell
@example(["begin", "receive", "confirm", "put back", "write", "begin", "kill"])  # killed between the copy and the first event
def test_a_place_applies_every_write_once_and_in_order_through_kills_and_disks_that_are_put_back(steps: list[str]) -> None:
    topic = Topic()
    life = Life(topic)
    for step in steps:
        if step == "write":
            topic.send()
        elif step == "begin":
            if life.intake is None:
                life.begin()
        elif step == "image":
            life.old = life.disk.copy()
        elif step == "put back":
            life.put_back()
        else:
            {"receive": life.receive, "confirm": life.confirm, "kill": life.kill}[step]()
        if life.intake is not None and life.disk.passing_until is None:
            assert life.disk.applied == topic.order[: len(life.disk.applied)]

    life.kill()
    life.begin()
    while life.received < len(topic.order):
        life.receive()

    assert life.disk.applied == topic.order
