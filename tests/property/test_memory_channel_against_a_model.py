"""The channel in memory against a list: whatever is appended, released and read, in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.channel.channel import Purpose
from holdfast.channel.memory_channel import COMMAND_COST_MIN_BYTES, MemoryChannel, MemorySettings, MemorySpace
from holdfast.errors import Blocked, NoSuchPosition
from tests.waiting import turn_loop

SETTINGS = MemorySettings(size_bytes=4_000, reserve_bytes=500, upkeep_bytes=700)
PURPOSES = st.sampled_from(Purpose)
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(0, 600), PURPOSES)
    | st.tuples(st.just("release"), st.integers(0, 40), st.none())
    | st.tuples(st.just("turn"), st.integers(0, 0), st.none()),
    max_size=60,
)


@given(STEPS)
def test_a_channel_holds_what_a_list_would(steps: list[tuple[str, int, Any]]) -> None:
    async def run() -> None:
        channel = MemoryChannel(SETTINGS)
        model: list[bytes] = []  # every command ever accepted
        first = 1
        for step, number, purpose in steps:
            if step == "append":
                command = b"%d" % len(model) + bytes(number)
                future = channel.append(command, purpose)
                if not future.done():  # it was let in
                    model.append(command)
                else:
                    assert isinstance(future.exception(), Blocked)
            elif step == "turn":
                await turn_loop()
                assert channel.durable == len(model)
            else:
                await channel.release(number)
                first = max(first, min(number, channel.durable + 1))
            assert channel.first == first
            assert channel.durable <= len(model)
        await turn_loop()
        await _check_against(channel, model, first)
        await channel.close()

    asyncio.run(run())


async def _check_against(channel: MemoryChannel, model: list[bytes], first: int) -> None:
    held = list(range(first, len(model) + 1))
    assert await channel.fetch(held) == model[first - 1 :]
    found: list[tuple[int, bytes]] = []
    while len(found) < len(held):
        async for run in channel.read(first + len(found)):
            found.extend((entry.number, bytes(entry.command)) for entry in run)
            break
    assert found == list(zip(held, model[first - 1 :], strict=True))
    if first > 1:
        try:
            await anext(channel.read(first - 1))
        except NoSuchPosition:
            return
        raise AssertionError("an entry below the first was handed out")


@given(st.lists(st.tuples(st.integers(0, 600), PURPOSES), max_size=60))
def test_rule_7_every_byte_is_in_exactly_one_place_and_upkeep_always_has_its_own(wanted: list[tuple[int, Purpose]]) -> None:
    room = MemorySpace(SETTINGS)
    taken = {Purpose.EVENTS: 0, Purpose.UPKEEP: 0}

    for length, purpose in wanted:
        cost = max(length, COMMAND_COST_MIN_BYTES)
        if room.take(cost, purpose.reserve):
            taken[purpose.reserve] += cost
        left = room.pressure
        free = left.free_bytes + left.events_reserve_bytes + left.upkeep_reserve_bytes

        assert free + sum(taken.values()) == SETTINGS.size_bytes
        assert min(left.free_bytes, left.events_reserve_bytes, left.upkeep_reserve_bytes) >= 0
        assert taken[Purpose.EVENTS] <= SETTINGS.size_bytes - SETTINGS.upkeep_bytes
        assert left.is_short or left.upkeep_reserve_bytes == SETTINGS.upkeep_bytes

    room.give_back(sum(taken.values()))
    assert room.pressure == MemorySpace(SETTINGS).pressure or not any(taken.values())
