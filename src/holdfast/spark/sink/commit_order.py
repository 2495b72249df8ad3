"""The order of commits, for both sinks: which query and task write, and that a batch is committed in turn, with its plan on disk.

Spark tells which query it is only to tasks, and only while `write` runs.
"""

from __future__ import annotations

import os

from pyspark import TaskContext

from holdfast.errors import CheckpointMismatch, Refused

QUERY_ID = "sql.streaming.queryId"


def query_of(task: TaskContext | None) -> str:
    """The id of the query whose batch is written: it stays the same as long as the query's checkpoint does."""
    query = task.getLocalProperty(QUERY_ID) if task is not None else None
    if not query:
        raise Refused("Spark does not say which query this batch belongs to, so it could not be written once; use writeStream")
    return query


def task_name(task: TaskContext | None) -> str:
    """Which task of which attempt, for people who look at what it left behind."""
    return f"{task.partitionId():05}-{task.taskAttemptId()}" if task is not None else "00000-0"


def check_in_order(number: int, last: int | None, where: str) -> None:
    """Spark counts its batches one by one, and comes again only with the newest. Whoever comes with an older one has an old
    checkpoint: the number means another batch, with other rows, and to take it for a repetition would lose them.
    """
    if last is not None and last > number:
        raise CheckpointMismatch(
            f"{where} has batch {last} of this query, and the checkpoint is at batch {number}: it is an old one, from a backup "
            "perhaps. Nothing was written or lost. Begin with a new checkpoint folder: the query then goes on with what waits",
            last=last,
            number=number,
        )


def make_plan_durable() -> None:
    """Spark has written down how far this batch goes, and not synced it.

    If a power cut took that away while the batch is where it belongs, Spark would plan it anew, from the same place and further,
    and the sink would take it for a repetition: the rows that are new in it would be lost. So before a batch that has a number is
    committed, all file systems of the driver's machine are synced. (Other machines' write down by themselves what they took.)
    """
    os.sync()
