"""What Spark raises becomes what it means: an error of Holdfast with its exit code, or a sentence that says what to do."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from holdfast.errors import BadSetting, CheckpointMismatch, Unavailable, Unreachable
from holdfast.spark.pipelines.running.runner import as_holdfast_error, translated

TRACEBACK = """[STREAM_FAILED] Query failed: An exception was raised by the Python Proxy.
Traceback (most recent call last):
  File "/x/owning.py", line 3, in latest
    raise Unreachable("no")
holdfast.errors.LinkLost: the link broke

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/owning.py", line 9, in latest
holdfast.errors.{0}: no answer from holdfast://127.0.0.1:1 for 60 s; start the server

	at org.apache.spark.Something(Else.scala:41)"""


@pytest.mark.parametrize("kind", [Unreachable, CheckpointMismatch])
def test_an_error_of_ours_comes_out_of_spark_as_it_went_in(kind: type[Unreachable]) -> None:
    found = as_holdfast_error(StreamingQueryException(TRACEBACK.format(kind.__name__)))

    assert type(found) is kind
    assert found.sentence == "no answer from holdfast://127.0.0.1:1 for 60 s; start the server"


def test_an_error_of_python_is_said_by_its_last_line() -> None:
    said = as_holdfast_error(
        StreamingQueryException("[X] oh\nTraceback (most recent call last):\n  File 'x'\nOSError: disk full\n\tat a.b")
    )

    assert isinstance(said, Unavailable)
    assert "OSError: disk full" in said.sentence


def test_a_statement_that_spark_does_not_understand_is_refused_with_its_words() -> None:
    with pytest.raises(BadSetting, match="colour cannot be resolved"), translated():
        raise AnalysisException("[UNRESOLVED_COLUMN] colour cannot be resolved\nat line 1")
