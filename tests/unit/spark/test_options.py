"""The options of source and sink (D1 to D3): read in any case, checked before anything is opened, secrets kept."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from holdfast.errors import BadName, BadPattern, BadSelector, BadSetting, BadUrl, Refused
from holdfast.event.extent import Bounds
from holdfast.event.pattern import Pattern
from holdfast.spark.columns.schema import COLUMNS
from holdfast.spark.options import BatchOptions, Destination, SinkOptions, SourceOptions, StreamOptions

URL = {"url": "holdfast://localhost"}
STREAM = {**URL, "destinations": "orders", "subscription": "lake"}
BATCH = {**URL, "destinations": "orders"}


def test_a_stream_needs_little_and_the_rest_has_a_value() -> None:
    options = StreamOptions.of(STREAM)

    assert options.destinations == (Destination("orders", "name"),)
    assert (options.url, options.subscription, options.selector) == ("holdfast://localhost", "lake", None)
    assert (options.events_max, options.bytes_max, options.partitions_min) == (None, None, 1)
    assert (options.sync, options.poll_seconds, options.on_mismatch) == ("local", 1.0, "fail")
    assert options.layout.columns == COLUMNS[:-1]


def test_a_stream_takes_all_its_options_in_any_case_and_leaves_those_of_spark_alone() -> None:
    options = StreamOptions.of(
        {
            "URL": "holdfasts://ann@a,b:7500", "Password": "pw", "timeout": "2.5", "destinations": "alerts.*, orders,plant/?",
            "subscription": "lake", "SELECTOR": "amount > 3", "FORMAT": "Json", "dataschema": "a INT", "columns": "id, data",
            "minPartitions": "8", "maxEventsPerTrigger": "1_000", "maxBytesPerTrigger": "64M",
            "sync": "30", "pollSeconds": "0.5", "onMismatch": "continue", "checkpointLocation": "/tmp/x", "queryName": "q",
        }
    )  # fmt: skip

    assert options.destinations == (
        Destination("alerts.*", "glob"),
        Destination("orders", "name"),
        Destination("plant/?", "glob"),
    )
    assert (options.password, options.timeout, options.selector, options.partitions_min) == ("pw", 2.5, "amount > 3", 8)
    assert (options.layout.format, options.layout.data_schema, options.layout.columns) == ("json", "a INT", ("id", "data"))
    assert (options.events_max, options.bytes_max) == (1000, 64 << 20)
    assert (options.sync, options.poll_seconds, options.on_mismatch) == (30.0, 0.5, "continue")


def test_a_stream_takes_the_names_of_kafkas_source_too() -> None:
    given = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "50", "maxTriggerDelay": "1.5m", "failOnDataLoss": "FALSE"}
    options = StreamOptions.of({**STREAM, **given})

    assert (options.events_min, options.events_max, options.trigger_delay_s, options.on_mismatch) == (5, 50, 90.0, "continue")
    assert (StreamOptions.of(STREAM).events_min, StreamOptions.of(STREAM).trigger_delay_s) == (None, 900.0)


def test_a_new_stream_begins_at_a_position_or_a_time() -> None:
    options = StreamOptions.of({**STREAM, "startingTime": "1970-01-01T00:00:02Z", "startingPosition": "65_537"})

    assert options.starting == Bounds(start_position=65_537, start_us=2_000_000)
    assert StreamOptions.of(STREAM).starting is None


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("orders.*", "*.eu", "orders.eu"),
        ("orders.>", "orders.*", "orders.new"),
        ("orders.**", "orders*", "orders"),
        ("orders.**.eu", "**.orders.eu", "orders.eu"),
        ("**/7/*", "plant/>", "plant/7/x"),
        ("**.**", "plant/?", "plant/7"),
        ("a*c", "ab?", "abc"),
        ("_*", "_D*", "_DMQ"),
    ],
)
def test_wildcards_that_can_mean_the_same_name_are_refused(one: str, other: str, both: str) -> None:
    assert Pattern.glob(one).matches(both) and Pattern.glob(other).matches(both)

    for destinations in (f"{one},{other}", f"{other},{one}"):
        with pytest.raises(BadSetting, match="read twice"):
            BatchOptions.of({**BATCH, "destinations": destinations})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alerts.*", "plant/?"),
        ("orders.*", "orders/*"),
        ("orders.*", "orders.*.*"),
        ("*.eu", "*.us"),
        ("orders.?", "orders.??"),
        ("orders.>", "orders*"),
        ("a.**", "b.**"),
        ("**.new", "re*w"),
        ("**", "_*"),
    ],
)
def test_wildcards_that_no_name_fits_both_of_are_read_together(one: str, other: str) -> None:
    options = BatchOptions.of({**BATCH, "destinations": f"{one},{other}"})

    assert options.destinations == (Destination(one, "glob"), Destination(other, "glob"))


def test_a_regular_expression_is_one_destination_commas_included() -> None:
    options = StreamOptions.of({**STREAM, "destinations": "a{1,2}|b", "match": "regex"})

    assert options.destinations == (Destination("a{1,2}|b", "regex"),)


def test_a_batch_read_takes_ranges_and_a_folder_and_needs_no_subscription() -> None:
    options = BatchOptions.of(
        {
            "url": "file:./events", "destinations": "_DMQ", "startPosition": "65536", "endPosition": "131072",
            "startTime": "2026-01-31T09:00:00+01:00", "endTime": "2026-01-31T08:00:00.000001Z",
        }
    )  # fmt: skip

    assert (options.start_position, options.end_position) == (65_536, 131_072)
    assert (options.start_us, options.end_us) == (1_769_846_400_000_000, 1_769_846_400_000_001)
    assert options.subscription == ""


def test_the_schema_is_known_before_it_is_known_what_is_read() -> None:
    """Spark asks for the schema of a source before it says whether it streams."""
    assert SourceOptions.of({**STREAM, "pollSeconds": "2", "columns": "id"}).layout.columns == ("id",)
    assert SourceOptions.of({**BATCH, "startPosition": "1"}).layout.columns == COLUMNS[:-1]


def test_a_sink_takes_its_options_and_says_how_rows_become_events() -> None:
    options = SinkOptions.of(
        {
            **URL, "destination": "orders", "kind": "queue", "scope": "nightly", "number": "7", "type": "order.placed",
            "source": "/spark",
            "datacontenttype": "application/json", "priority": "9", "ttlSeconds": "1.5", "delaySeconds": "2",
        }
    )  # fmt: skip
    settings = options.row_settings("/client")

    assert (options.scope, options.number, options.timeout) == ("nightly", 7, 60.0)
    assert (settings.destination, settings.kind, settings.type, settings.source) == ("orders", "queue", "order.placed", "/spark")
    assert (settings.datacontenttype, settings.priority, settings.ttl_ms, settings.delay_ms) == (
        "application/json",
        9,
        1500,
        2000,
    )


def test_a_sink_needs_nothing_but_a_server() -> None:
    settings = SinkOptions.of(URL).row_settings("/client")

    assert (settings.destination, settings.kind, settings.type, settings.source) == (None, "topic", "event", "/client")
    assert (settings.priority, settings.ttl_ms, settings.delay_ms) == (4, None, 0)


@pytest.mark.parametrize("options", [StreamOptions.of(STREAM), BatchOptions.of(BATCH), SinkOptions.of(URL)], ids=repr)
def test_options_travel_to_executors(options: object) -> None:
    assert pickle.loads(pickle.dumps(options)) == options


SECRETS = {**STREAM, "url": "holdfast://ann:hush@localhost", "password": "hush-too"}


def test_a_secret_is_never_part_of_what_options_look_like() -> None:
    for options in (StreamOptions.of(SECRETS), SinkOptions.of({"url": SECRETS["url"], "password": "hush-too"})):
        assert "hush" not in repr(options)
        assert options.shown_url == "holdfast://ann:***@localhost"


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "holdfast://ann:hush@local host/x"},
        {"url": "holdfsat://ann:hush@localhost"},
        {"url": "memory:hush@x", "password": "hush"},
        {"passwrod": "hush"},
        {"password": " "},
        {"pollSeconds": "x"},
    ],
)
def test_a_secret_is_never_part_of_a_complaint(changed: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        StreamOptions.of({**SECRETS, **changed})

    assert "hush" not in caught.value.sentence.replace("memory:hush", "")
    assert "hush" not in str({**caught.value.fields, "url": ""})


def test_an_unknown_option_is_refused_with_those_that_may_have_been_meant() -> None:
    with pytest.raises(BadSetting, match="Did you mean maxEventsPerTrigger") as caught:
        StreamOptions.of({**STREAM, "maxEventPerTriger": "5"})

    assert "minPartitions" in caught.value.sentence
    assert "startPosition" not in caught.value.sentence


@pytest.mark.parametrize(
    ("kind", "options", "error", "said"),
    [
        (StreamOptions, {"destinations": "a", "subscription": "s"}, BadSetting, "needs the option url"),
        (StreamOptions, {**URL, "subscription": "s"}, BadSetting, "needs the option destinations"),
        (StreamOptions, BATCH, BadSetting, "needs the option subscription"),
        (StreamOptions, {**STREAM, "startPosition": "1"}, BadSetting, "is for batch reads, and this is a stream"),
        (BatchOptions, {**BATCH, "pollSeconds": "1"}, BadSetting, "is for streams, and this is a batch read"),
        (SinkOptions, {**URL, "destinations": "a"}, BadSetting, "is for reading, and this is writing"),
        (SourceOptions, {**BATCH, "kind": "queue"}, BadSetting, "is for writing, and this is a read"),
        (StreamOptions, {**STREAM, "url": "file:x"}, BadUrl, "holdfast serve"),
        (SinkOptions, {"url": "file:x"}, BadUrl, "holdfast serve"),
        (BatchOptions, {**BATCH, "url": "memory:x"}, BadUrl, "memory of one process"),
        (BatchOptions, {**BATCH, "url": "http://x"}, BadUrl, "possible are"),
        (BatchOptions, {**BATCH, "password": "x"}, BadUrl, "names no user"),
        (BatchOptions, {**BATCH, "destinations": "a b"}, BadName, "option destinations: "),
        (BatchOptions, {**BATCH, "destinations": "a,,b"}, BadName, "empty"),
        (BatchOptions, {**BATCH, "destinations": "_ADMIN"}, BadName, "receives"),
        (BatchOptions, {**BATCH, "destinations": "a.*$"}, BadPattern, "option destinations: "),
        (BatchOptions, {**BATCH, "destinations": "(", "match": "regex"}, BadPattern, "option destinations: "),
        (BatchOptions, {**BATCH, "destinations": "a.*", "match": "name"}, BadName, "contains '*'"),
        (BatchOptions, {**BATCH, "destinations": "a.*,a.b"}, BadSetting, "read twice"),
        (BatchOptions, {**BATCH, "destinations": "a,a"}, BadSetting, "read twice"),
        (StreamOptions, {**STREAM, "destinations": "orders.*,*.eu"}, BadSetting, "'orders.*' and '*.eu' can both mean"),
        (StreamOptions, {**STREAM, "destinations": "orders.*,x,*.eu"}, BadSetting, "one wider pattern, or two queries"),
        (BatchOptions, {**BATCH, "match": "like"}, BadSetting, "possible are name, glob, regex"),
        (StreamOptions, {**STREAM, "subscription": "_own"}, BadName, "option subscription: "),
        (StreamOptions, {**STREAM, "subscription": " "}, BadSetting, "is empty"),
        (StreamOptions, {**STREAM, "selector": "amount >"}, BadSelector, "option selector: "),
        (StreamOptions, {**STREAM, "properties": "variant"}, BadSetting, "possible are text, json"),
        (StreamOptions, {**STREAM, "format": "avro"}, BadSetting, "possible are binary, text, json"),
        (StreamOptions, {**STREAM, "format": "json"}, BadSetting, "dataSchema"),
        (StreamOptions, {**STREAM, "format": "json", "dataSchema": "a INTT"}, BadSetting, "column 3"),
        (StreamOptions, {**STREAM, "columns": "id,dta"}, BadSetting, "did you mean 'data'"),
        (StreamOptions, {**STREAM, "maxEventsPerTrigger": "0"}, BadSetting, "whole number from 1"),
        (StreamOptions, {**STREAM, "maxEventsPerTrigger": "-5"}, BadSetting, "whole number from 1"),
        (StreamOptions, {**STREAM, "maxEventsPerTrigger": "1e3"}, BadSetting, "whole number from 1"),
        (StreamOptions, {**STREAM, "maxEventsPerTrigger": "9" * 5000}, BadSetting, "whole number from 1"),
        (StreamOptions, {**STREAM, "maxBytesPerTrigger": "many"}, BadSetting, "write a size"),
        (StreamOptions, {**STREAM, "maxBytesPerTrigger": "9" * 400}, BadSetting, "write a size"),
        (StreamOptions, {**STREAM, "minPartitions": "5000"}, BadSetting, "from 1 to 4,096"),
        (StreamOptions, {**STREAM, "onMismatch": "now"}, BadSetting, "fail, continue"),
        (StreamOptions, {**STREAM, "sync": "never"}, BadSetting, "give seconds"),
        (StreamOptions, {**STREAM, "pollSeconds": "61"}, BadSetting, "from 0 to 60"),
        (StreamOptions, {**STREAM, "pollSeconds": "nan"}, BadSetting, "from 0 to 60"),
        (StreamOptions, {**STREAM, "timeout": "0"}, BadSetting, "give seconds"),
        (StreamOptions, {**STREAM, "onMismatch": "ignore"}, BadSetting, "fail, continue"),
        (StreamOptions, {**STREAM, "failOnDataLoss": "no"}, BadSetting, "true, false"),
        (StreamOptions, {**STREAM, "failOnDataLoss": "true", "onMismatch": "continue"}, BadSetting, "contradict each other"),
        (StreamOptions, {**STREAM, "failOnDataLoss": "false", "onMismatch": "fail"}, BadSetting, "contradict each other"),
        (StreamOptions, {**STREAM, "minEventsPerTrigger": "0"}, BadSetting, "whole number from 1"),
        (StreamOptions, {**STREAM, "minOffsetsPerTrigger": "9", "maxEventsPerTrigger": "8"}, BadSetting, "exchange them"),
        (StreamOptions, {**STREAM, "maxTriggerDelay": "soon"}, BadSetting, "30s, 15m or 1h"),
        (StreamOptions, {**STREAM, "minEventsPerTrigger": "9", "maxTriggerDelay": "2d"}, BadSetting, "to 86400 seconds"),
        (StreamOptions, {**STREAM, "startingTime": "2026-01-31T08:00:00"}, BadSetting, "no time zone"),
        (StreamOptions, {**STREAM, "startingPosition": "-1"}, BadSetting, "whole number from 0"),
        (BatchOptions, {**BATCH, "startingTime": "2026-01-31T08:00:00Z"}, BadSetting, "is for streams"),
        (BatchOptions, {**BATCH, "startTime": "yesterday"}, BadSetting, "2026-01-31T08:00:00Z"),
        (BatchOptions, {**BATCH, "startTime": "2026-01-31T08:00:00"}, BadSetting, "no time zone"),
        (BatchOptions, {**BATCH, "startPosition": "2", "endPosition": "2"}, BadSetting, "startPosition is not before"),
        (BatchOptions, {**BATCH, "startTime": "2026-01-02Z", "endTime": "2026-01-01Z"}, BadSetting, "2026-01-31T08:00:00Z"),
        (
            BatchOptions,
            {**BATCH, "startTime": "2026-01-02T00:00Z", "endTime": "2026-01-01T00:00Z"},
            BadSetting,
            "startTime is not before",
        ),
        (SinkOptions, {**URL, "destination": "a b"}, BadName, "option destination: "),
        (SinkOptions, {**URL, "destination": "_DMQ"}, BadName, "only Holdfast itself sends"),
        (SinkOptions, {**URL, "kind": "stream"}, BadSetting, "queue, topic"),
        (SinkOptions, {**URL, "priority": "10"}, BadSetting, "from 0 to 9"),
        (SinkOptions, {**URL, "ttlSeconds": "0"}, BadSetting, "give seconds"),
        (SinkOptions, {**URL, "delaySeconds": "-1"}, BadSetting, "give seconds"),
        (SinkOptions, {**URL, "scope": "x" * 256, "number": "1"}, BadSetting, "256 characters"),
        (SinkOptions, {**URL, "scope": "nightly"}, BadSetting, "belong together"),
        (SinkOptions, {**URL, "type": ""}, BadSetting, "is empty"),
        (SinkOptions, {**URL, "path": "/tmp/x"}, BadSetting, "no option 'path'"),
    ],
)
def test_what_is_not_possible_is_refused_with_a_sentence(
    kind: type[StreamOptions | BatchOptions | SourceOptions | SinkOptions],
    options: Mapping[str, str],
    error: type[Refused],
    said: str,
) -> None:
    with pytest.raises(error) as caught:
        kind.of(options)

    assert type(caught.value) is error
    assert said in caught.value.sentence
