"""What the source refuses: each with a sentence that says what to do, none by hanging (D1, D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import holdfast.blocking
from holdfast.errors import CheckpointMismatch, LoginFailed, Refused, SubscriptionInUse, Unreachable, WrongKind
from holdfast.spark.java import find_java
from holdfast.spark.options import StreamOptions
from holdfast.spark.source.driver import Driver
from holdfast.spark.source.offsets import Mark, Marks, read, written
from holdfast.spark.source.stream_ownership import Allowance
from tests.protected_server import ProtectedServer
from tests.server_process import ServerProcess, free_port
from tests.spark.streams import send, waiting

ALL = Allowance()


def driver(server: ServerProcess, destinations: str, **options: str) -> Driver:
    given = {"url": server.url, "destinations": destinations, "subscription": "lake", "timeout": "10", "pollSeconds": "0.05"}
    return Driver(StreamOptions.of({**given, **options}))


def committed(server: ServerProcess, topic: str, events: int) -> Marks:
    """A subscription from which a query has read so many events, up to these marks, and confirmed them."""
    made = driver(server, topic)
    begin = made.beginning()
    send(server, topic, range(events))
    end = made.latest(begin, ALL)
    assert made.latest(end, ALL) == end
    made.close()
    assert waiting(server, topic, "lake") == 0
    return end


# --- a checkpoint and its subscription -----------------------------------------------------------------------------------


def test_a_checkpoint_of_a_subscription_that_was_made_again_is_refused_and_says_how_to_go_on_d1(server: ServerProcess) -> None:
    end = committed(server, "refused.remade", 10)
    with holdfast.blocking.connect(server.url) as client:
        client.delete_subscription("refused.remade", "lake")
    restarted = driver(server, "refused.remade")

    with pytest.raises(CheckpointMismatch, match=r"made again.*new checkpoint folder.*onMismatch"):
        restarted.latest(end, ALL)
    with pytest.raises(CheckpointMismatch, match="made again"):
        restarted.ranges(end, end)
    restarted.close()


@pytest.mark.parametrize("on_mismatch", ["fail", "continue"])
def test_a_checkpoint_older_than_what_is_confirmed_is_refused_whatever_the_options_say_d1(
    server: ServerProcess, on_mismatch: str
) -> None:
    """Its batches have numbers that the sinks know: what is new in them would be taken for a repetition, and be lost."""
    topic = f"refused.older.{on_mismatch}"
    end = committed(server, topic, 10)
    old = {topic: end[topic]._replace(place=0, cuts=())}
    restarted = driver(server, topic, onMismatch=on_mismatch)

    with pytest.raises(CheckpointMismatch, match=r"older than what a newer one has confirmed.*new checkpoint folder"):
        restarted.latest(old, ALL)
    restarted.close()


def test_a_first_batch_that_was_planned_for_a_subscription_that_is_gone_confirms_nothing_of_the_next_one_d1(
    server: ServerProcess,
) -> None:
    """Spark asks for the beginning again when not even the first batch was committed."""
    topic = "refused.first-batch"
    end = committed(server, topic, 10)
    with holdfast.blocking.connect(server.url) as client:
        client.delete_subscription(topic, "lake")
        client.create_subscription(topic, "lake")
    for number in range(20):
        send(server, topic, [number])
    restarted = driver(server, topic)

    begin = restarted.beginning()
    assert restarted.ranges(begin, end) == []
    with pytest.raises(CheckpointMismatch, match="made again"):
        restarted.latest(end, ALL)
    restarted.close()

    assert waiting(server, topic, "lake") == 20


def test_a_checkpoint_of_a_newer_server_than_this_one_is_refused_d1(server: ServerProcess) -> None:
    end = committed(server, "refused.newer", 10)
    beyond = {name: mark._replace(place=mark.place << 1) for name, mark in end.items()}
    restarted = driver(server, "refused.newer")

    with pytest.raises(CheckpointMismatch, match="the server's data is older"):
        restarted.latest(beyond, ALL)
    restarted.close()


def test_a_destination_that_is_no_longer_named_is_missed_and_one_that_is_new_joins_d1(server: ServerProcess) -> None:
    end = committed(server, "refused.first", 10)
    without = driver(server, "refused.second")
    with pytest.raises(CheckpointMismatch, match=r"'refused.first', which the option 'destinations' does not name"):
        without.latest(end, ALL)
    without.close()

    both = driver(server, "refused.first,refused.second")
    send(server, "refused.second", range(5))
    joined = both.latest(end, ALL)
    assert both.ranges(end, joined) == []
    newest = both.latest(joined, ALL)
    assert [each.destination for each in both.ranges(joined, newest)] == ["refused.second"]
    both.close()


def test_what_is_not_safe_yet_is_not_confirmed_and_counts_as_lag_d1_d6(server: ServerProcess) -> None:
    patient = driver(server, "refused.patient", sync="3600")
    begin = patient.beginning()
    send(server, "refused.patient", range(10))
    end = patient.latest(begin, ALL)

    assert patient.latest(end, ALL) == end
    assert waiting(server, "refused.patient", "lake") == 10
    reported = patient.report()
    assert reported is not None and reported["refused.patient"][2] == 10
    patient.close()


def test_offsets_are_read_as_they_were_written_and_nothing_else_is() -> None:
    marks = {"b": Mark("x:1", 65_536, (1, 2)), "a": Mark("x:2", 0)}

    assert list(written(marks)) == ["a", "b"]
    assert read(written(marks)) == marks
    for foreign in ({"a": 7}, {"a": ["x", -1]}, {"a": [1, 2]}, {"a": ["x", 1, [True]]}):
        with pytest.raises(CheckpointMismatch, match="not one of this source"):
            read(foreign)


# --- servers and destinations --------------------------------------------------------------------------------------------


def test_a_server_that_cannot_be_reached_is_an_error_in_time_d1() -> None:
    nowhere = {"url": f"holdfast://127.0.0.1:{free_port()}", "destinations": "a", "subscription": "lake", "timeout": "1"}

    with pytest.raises(Unreachable, match=r"no answer from holdfast://127.0.0.1.+ for \d+ s"):
        Driver(StreamOptions.of(nowhere)).beginning()


def test_a_second_owner_is_refused_while_the_first_one_lives_d1(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.spark.source.stream_ownership.OWNER_PATIENCE_S", 2.0)
    first, second = driver(server, "refused.owned"), driver(server, "refused.owned")
    first.beginning()

    with pytest.raises(SubscriptionInUse, match="A stream has its subscription for itself"):
        second.beginning()

    first.close()
    assert second.beginning().keys() == {"refused.owned"}
    second.close()


def test_a_stream_does_not_read_a_queue_and_says_what_does_d1(server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_queue("refused.queue")

    with pytest.raises(WrongKind, match=r"is a queue.*Send to a topic.*spark\.read"):
        driver(server, "refused.queue").beginning()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"destinations": "refused.nowhere"}, "there is no queue or topic 'refused.nowhere'"),
        ({"destinations": "refused.no*"}, "no queue matches 'refused.no*'"),
        ({"destinations": "refused.topic"}, "is a topic, which holds nothing by itself"),
        ({"destinations": "refused.topic", "subscription": "nobody"}, "nobody"),
        ({"destinations": "refused.topic", "selector": "amount >"}, "selector"),
        ({"destinatons": "refused.topic"}, "destinations"),
        ({"url": "holdfast://ada:secret@127.0.0.1:1?insecure=yes", "destinations": "a", "timeout": "1"}, "no link to a server"),
        ({"url": "file:/nowhere/at/all", "destinations": "a"}, "there is no folder /nowhere/at/all"),
    ],
)
def test_a_batch_read_that_is_not_possible_is_refused_in_words_d2(
    spark: SparkSession, server: ServerProcess, options: dict[str, str], said: str
) -> None:
    with holdfast.blocking.connect(server.url) as client:
        if "refused.topic" not in [each["name"] for each in client.destinations()]:
            client.create_topic("refused.topic")
    given: dict[str, Any] = {"url": server.url, "timeout": "5", **options}

    with pytest.raises(PySparkException) as refused:
        spark.read.format("holdfast").options(**given).load().collect()

    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_schema_with_another_type_is_refused_in_words_d2(spark: SparkSession, server: ServerProcess) -> None:
    options = {"url": server.url, "destinations": "refused.queue"}

    with pytest.raises(PySparkException, match="column 'priority' is int, not string as the schema says"):
        spark.read.format("holdfast").schema("priority STRING").options(**options).load().collect()


def test_a_wrong_password_is_refused_in_time_and_not_repeated_d1(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path) as server:
        options = {"url": server.url("alice"), "password": "guessed", "destinations": "orders.a", "subscription": "lake"}

        with pytest.raises(LoginFailed) as refused:
            Driver(StreamOptions.of(options)).beginning()

    assert "guessed" not in f"{refused.value}{StreamOptions.of(options)}"


# --- Java ----------------------------------------------------------------------------------------------------------------


def test_without_java_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="apt-get install openjdk-17-jre-headless"):
        find_java({"PATH": str(tmp_path)}, tmp_path)
    with pytest.raises(Refused, match="there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)}, tmp_path)


def test_java_is_found_where_debian_puts_it_unless_it_is_too_old(tmp_path: Path) -> None:
    for name, version in (("java-11", "11.0.2"), ("java-21", "21.0.1"), ("java-17", "17.0.15")):
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").touch(mode=0o755)
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')

    assert find_java({"PATH": ""}, tmp_path) == tmp_path / "java-17"
    with pytest.raises(Refused, match="which is Java 11"):
        find_java({"JAVA_HOME": str(tmp_path / "java-11")}, tmp_path)
