"""The logging handler: log records become events, and never an exception in the program."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.destination import command
from holdfast.errors import Closed
from holdfast.event.batch import Batch
from holdfast.event.event import Head, decode_data, decode_head
from holdfast.logging_handler import EventHandler
from holdfast.recorder.recorder import Recorder


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.Logger("shop.orders")
    yield made
    for handler in made.handlers:
        handler.close()


def _events(recorder: Recorder) -> list[tuple[str, Head, Any]]:
    found = []
    for each in recorder.read(1, recorder.last):
        batch = Batch(command.decode(each.command)[1])
        head = decode_head(batch.head(0))
        found.append((each.destination, head, decode_data(batch.body(0), head.datacontenttype)))
    return found


def test_a_log_record_is_an_event_with_its_message_place_level_and_logger(tmp_path: Path, logger: logging.Logger) -> None:
    with Recorder(tmp_path) as recorder:
        logger.addHandler(EventHandler(recorder))

        logger.warning("order %d is late", 7)

        ((destination, head, data),) = _events(recorder)
    assert destination == "log"
    assert head.type == "log.warning"
    assert head.properties == {"level": "WARNING", "logger": "shop.orders"}
    assert data["message"] == "order 7 is late"
    assert data["path"] == __file__
    assert data["function"].startswith("test_a_log_record")
    assert data["line"] > 0


def test_an_exception_travels_as_text(tmp_path: Path, logger: logging.Logger) -> None:
    with Recorder(tmp_path) as recorder:
        logger.addHandler(EventHandler(recorder, destination="errors"))

        try:
            raise ValueError("no such sku")
        except ValueError:
            logger.exception("failed")

        ((destination, head, data),) = _events(recorder)
    assert (destination, head.type) == ("errors", "log.error")
    assert "Traceback" in data["exception"]
    assert data["exception"].endswith("ValueError: no such sku")


def test_records_below_the_level_and_of_holdfast_itself_are_left_out(tmp_path: Path, logger: logging.Logger) -> None:
    with Recorder(tmp_path) as recorder:
        handler = EventHandler(recorder, level="WARNING")
        logger.addHandler(handler)
        own = logging.Logger("holdfast.recorder")
        own.addHandler(handler)
        lookalike = logging.Logger("holdfasting")
        lookalike.addHandler(handler)

        logger.info("quiet")
        own.warning("not forwarded")
        lookalike.warning("taken")

        assert [data["message"] for _, _, data in _events(recorder)] == ["taken"]


def test_what_cannot_be_recorded_is_counted_and_never_raised(
    tmp_path: Path, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(tmp_path)
    handler = EventHandler(recorder)
    logger.addHandler(handler)
    recorder.close()

    logger.warning("nobody takes this")
    logger.warning("bad arguments %d", "x")

    assert handler.missed == 2
    assert "was closed" in capsys.readouterr().err


def test_a_handler_closes_the_recorder_it_opened_and_no_other(tmp_path: Path) -> None:
    own = EventHandler(tmp_path / "own")
    own.close()
    with Recorder(tmp_path / "given") as given:
        EventHandler(given).close()

        assert given.record(1, "orders").sequence == 1
    with pytest.raises(Closed):
        own.recorder.record(1, "orders")
