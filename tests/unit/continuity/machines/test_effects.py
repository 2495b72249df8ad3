"""Effects: several servers ask, it is carried out once, and all get the same result."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.continuity.answer import Head
from holdfast.continuity.domain import EffectRule
from holdfast.continuity.machines.effects import (
    ASKS_MAX,
    Attributed,
    CarryOut,
    Effects,
    Give,
    Identity,
    LookUp,
    Numbering,
    Out,
    Refuse,
    Result,
    StopRebuild,
    Unattributed,
    asked_by_answer,
    attribute,
    digest_of_ask,
    trace_of,
)

ORDER = Identity("t1", digest_of_ask("POST", "http://exchange/orders", b"buy 5"), 1)
DONE, OTHER = Result(201, [], b"order 77"), Result(201, [], b"order 78")


# --- which transaction asks (31) -----------------------------------------------------------------------------------------


def _traceparent(transaction: str) -> bytes:
    return f"00-{trace_of(transaction)}-00f067aa0ba902b7-01".encode()


def test_a_trace_names_the_transaction_and_wins_over_turn() -> None:
    assert attribute(_traceparent("t2"), ["t1", "t2"], is_domain_order=False) == Attributed("t2", "trace")
    assert attribute(_traceparent("t1"), ["t1"], is_domain_order=True) == Attributed("t1", "trace")


@pytest.mark.parametrize("traceparent", [b"", b"garbage", _traceparent("elsewhere")])
def test_without_a_trace_it_is_the_request_whose_turn_it_is_in_domain_order_only(traceparent: bytes) -> None:
    assert attribute(traceparent, ["t1"], is_domain_order=True) == Attributed("t1", "turn")
    assert isinstance(attribute(traceparent, [], is_domain_order=True), Unattributed)
    assert isinstance(attribute(traceparent, ["t1", "t2"], is_domain_order=True), Unattributed)
    assert isinstance(attribute(traceparent, ["t1"], is_domain_order=False), Unattributed)


def test_equal_asks_of_a_transaction_are_told_apart_and_a_repeated_call_asks_for_the_same() -> None:
    numbering = Numbering()

    first = [
        numbering.identity("t1", b"x"),
        numbering.identity("t1", b"x"),
        numbering.identity("t1", b"y"),
        numbering.identity("t2", b"x"),
    ]
    numbering.finish("t1")

    assert first == [Identity("t1", b"x", 1), Identity("t1", b"x", 2), Identity("t1", b"y", 1), Identity("t2", b"x", 1)]
    assert numbering.identity("t1", b"x") == first[0]


def test_a_server_that_asks_without_end_is_stopped() -> None:
    numbering = Numbering()
    for _ in range(ASKS_MAX):
        numbering.identity("t1", b"x")

    assert isinstance(numbering.identity("t1", b"x"), Unattributed)


def test_method_url_and_body_make_the_digest_and_do_not_run_together() -> None:
    asks = [("POST", "http://a/b", b"c"), ("PUT", "http://a/b", b"c"), ("POST", "http://a/bc", b""), ("POST", "http://a/b", b"d")]

    assert len({digest_of_ask(*ask) for ask in asks}) == len(asks)


def test_an_answer_asks_by_a_header_that_a_rule_names_on_its_path() -> None:
    rules = [EffectRule("mail", "/orders/*", "X-Mail")]
    head = Head(201, [(b"x-mail", b"to ann"), (b"x-mail", b"to bob"), (b"x-other", b"1")])

    assert list(asked_by_answer(rules, "/orders/7?x", head)) == [("mail", b"to ann"), ("mail", b"to bob")]
    assert list(asked_by_answer(rules, "/carts/7", head)) == []
    assert list(asked_by_answer(rules, "/orders/7", Head(409, head.headers))) == []


# --- when it is carried out (30), continuity rule 5 ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["trace", "answer"])
def test_an_ask_that_is_traced_is_carried_out_at_once_and_once(how: str) -> None:
    effects = Effects(["a", "b"])

    assert effects.ask("a", ORDER, how, 0.0) == [CarryOut(ORDER)]  # type: ignore[arg-type]
    assert effects.ask("b", ORDER, how, 0.1) == []  # type: ignore[arg-type]
    assert effects.result(ORDER, DONE) == [Give("a", ORDER, DONE), Give("b", ORDER, DONE)]


def test_by_turn_two_current_servers_must_ask() -> None:
    effects = Effects(["a", "b", "c"])

    assert effects.ask("a", ORDER, "turn", 0.0) == effects.ask("a", ORDER, "turn", 0.1) == []
    assert effects.ask("c", ORDER, "turn", 0.2) == [CarryOut(ORDER)]


def test_by_turn_one_is_enough_when_only_one_is_current() -> None:
    effects = Effects(["a", "b"])

    assert effects.ask("a", ORDER, "turn", 0.0) == []
    assert effects.change(["a"]) == [CarryOut(ORDER)]


@pytest.mark.parametrize("how", ["trace", "turn"])
def test_a_shadow_causes_nothing_gets_the_result_and_is_refused_one_of_its_own(how: str) -> None:
    effects = Effects(["a"], ask_wait=5.0)
    own = Identity("t1", b"only the shadow", 1)

    assert effects.ask("s", ORDER, how, 0.0) == effects.ask("s", own, how, 0.0) == []  # type: ignore[arg-type]
    assert effects.ask("a", ORDER, "turn", 1.0) == [CarryOut(ORDER)]
    assert effects.result(ORDER, DONE) == [Give("s", ORDER, DONE), Give("a", ORDER, DONE)]
    assert effects.wake_at == 5.0 and effects.tick(4.9) == []
    assert [type(out) for out in effects.tick(5.0)] == [Refuse]


def test_a_traced_ask_of_a_shadow_makes_nothing_certain() -> None:
    effects = Effects(["a", "b"])

    assert effects.ask("s", ORDER, "trace", 0.0) == effects.ask("a", ORDER, "turn", 0.1) == []


def test_who_asks_later_gets_the_stored_result_and_the_first_result_counts() -> None:
    effects = Effects(["a", "b"])
    effects.result(ORDER, DONE)
    effects.result(ORDER, OTHER)

    assert effects.ask("b", ORDER, "turn", 0.0) == [Give("b", ORDER, DONE)]
    assert effects.ask("c", ORDER, "turn", 0.0, is_replay=True) == [Give("c", ORDER, DONE)]


def test_a_result_lives_as_long_as_history_and_an_ask_from_before_is_refused_and_never_carried_out() -> None:
    effects = Effects(["a", "b"])
    effects.result(ORDER, DONE, place=7)
    effects.forget_up_to(6)
    assert (effects.result_of(ORDER), effects.place_of(ORDER)) == (DONE, 7)

    effects.forget_up_to(7)

    assert (effects.result_of(ORDER), effects.results) == (None, 0)
    (refused,) = effects.ask("a", ORDER, "trace", 0.0, place=7)
    assert isinstance(refused, Refuse)
    (stopped,) = effects.ask("a", ORDER, "trace", 0.0, is_replay=True, place=7)
    assert isinstance(stopped, StopRebuild)
    assert effects.ask("a", ORDER, "trace", 0.0, place=8) == [CarryOut(ORDER)]


def test_an_effect_that_somebody_waits_for_is_not_forgotten() -> None:
    effects = Effects(["a", "b"])
    effects.ask("a", ORDER, "turn", 0.0, place=7)

    effects.forget_up_to(9)

    assert (effects.open, effects.place_of(ORDER)) == (1, 7)
    assert effects.ask("b", ORDER, "turn", 0.0) == [CarryOut(ORDER)]


def test_memory_is_bounded_by_what_history_keeps() -> None:
    effects = Effects(["a"])
    for place in range(1, 1_001):
        each = Identity(f"t{place}", b"d" * 16, 1)
        effects.ask("a", each, "trace", 0.0, place=place)
        effects.result(each, DONE, place)
        effects.forget_up_to(place - 50)

        assert effects.results <= 50
        assert len(effects._places) <= 50


# --- rebuilds and kills --------------------------------------------------------------------------------------------------


def test_a_replayed_ask_without_a_result_asks_the_far_side_or_stops_the_rebuild() -> None:
    found, not_found = Effects(["a"]), Effects(["a"])
    for effects in (found, not_found):
        assert effects.ask("a", ORDER, "trace", 0.0, is_replay=True) == [LookUp(ORDER)]

    assert found.looked_up(ORDER, DONE) == [Give("a", ORDER, DONE)]
    assert [type(out) for out in not_found.looked_up(ORDER, "not done")] == [StopRebuild]


def test_after_a_kill_it_is_looked_up_first_and_carried_out_again_only_if_it_was_not_done() -> None:
    done, not_done, unknown = (Effects(["a"]) for _ in range(3))
    for effects in (done, not_done, unknown):
        effects.ask("a", ORDER, "trace", 0.0)
        assert effects.interrupted(ORDER) == [LookUp(ORDER)]
        assert effects.interrupted(ORDER) == []

    assert done.looked_up(ORDER, DONE) == [Give("a", ORDER, DONE)]
    assert not_done.looked_up(ORDER, "not done") == [CarryOut(ORDER)]
    assert [type(out) for out in unknown.looked_up(ORDER, "cannot tell")] == [Refuse]


_STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from("abcs"), st.sampled_from(["trace", "turn"]), st.booleans()),
    st.tuples(st.just("change"), st.sets(st.sampled_from("abc"), min_size=1)),
    st.tuples(st.just("carry out")),
    st.tuples(st.just("look up"), st.sampled_from(["not done", "cannot tell"])),
    st.tuples(st.just("tick")),
)


@settings(max_examples=400)
@given(st.lists(_STEPS, max_size=25))
def test_whatever_is_asked_in_whatever_order_it_is_carried_out_once_and_only_for_current_servers(
    steps: list[tuple[object, ...]],
) -> None:
    effects, current, asked, results, now = Effects("abc", 2.0), set("abc"), set[str](), list[Result](), 0.0
    waiting: list[Out] = []
    for step in steps:
        out: list[Out] = []
        match step:
            case ("ask", server, how, is_replay):
                if not is_replay:
                    asked.add(str(server))
                out = effects.ask(server, ORDER, how, now, bool(is_replay))  # type: ignore[arg-type]
            case ("change", servers):
                current = set(servers)  # type: ignore[call-overload]
                out = effects.change(sorted(current))
            case ("carry out",) if CarryOut(ORDER) in waiting:
                waiting.remove(CarryOut(ORDER))
                results.append(Result(201, [], b"%d" % len(results)))
                out = effects.result(ORDER, results[-1])
            case ("look up", found) if LookUp(ORDER) in waiting:
                waiting.remove(LookUp(ORDER))
                out = effects.looked_up(ORDER, found)  # type: ignore[arg-type]
            case ("tick",):
                now += 1.0
                out = effects.tick(now)
        for each in out:
            if isinstance(each, CarryOut):
                assert asked & current, "a current server asked"
                assert not results and CarryOut(ORDER) not in waiting, "it was not carried out before"
            if isinstance(each, Give):
                assert each.result == results[0]
        waiting += [each for each in out if isinstance(each, CarryOut | LookUp)]
        assert len(waiting) <= 1, "it is carried out or looked up, not both"


def test_an_effect_that_was_certainly_not_done_is_refused_to_all_and_begins_anew_when_it_is_asked_for_again() -> None:
    effects = Effects(["a", "b"])
    effect = Identity("t", b"d" * 16, 1)
    effects.ask("a", effect, "trace", 0.0)
    effects.ask("b", effect, "trace", 0.0)

    refused = effects.failed(effect, "it is away")

    assert refused == [Refuse("a", effect, "it is away"), Refuse("b", effect, "it is away")]
    assert not effects.is_open(effect)
    assert effects.ask("a", effect, "trace", 1.0) == [CarryOut(effect)]
    assert effects.is_open(effect)
