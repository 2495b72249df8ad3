"""The inputs of an audit, as frames: files of receipts, the lake table, what a server (or a folder) holds and has counted.

Something may be sent, archived and confirmed while the audit reads. So it reads in the order in which an event goes, each whole
before the next is begun: receipts, then the server's account, what waits, what is dead, and the archive last. What has left one
of these when it is read has come to a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from holdfast import blocking
from holdfast.client.url import FileUrl, parse
from holdfast.destination.name import DEAD
from holdfast.errors import BadSetting, NoSuchSubscription
from holdfast.event.pattern import Pattern
from holdfast.node.observer import Observer
from holdfast.spark.options import Destination, SourceOptions
from holdfast.spark.pipelines.auditing.identifiers import counter_of, id_of, producer_of
from holdfast.spark.pipelines.auditing.report import Account

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A line of one event, or of many that were sent together, as `holdfast send --json` prints it.
RECEIPT = "destination string, id string, position long, first_id string, last_id string, count long, unread string"
COLUMNS = "destination,id,position,accepted_at"


class Inputs:
    """The events of one server or folder, for destinations that are named or matched."""

    def __init__(self, spark: SparkSession, url: str, destinations: str, subscription: str) -> None:
        self._spark = spark
        self._url = url
        self._subscription = subscription
        self._names = destinations
        self._kept: list[DataFrame] = []
        self._destinations: Sequence[Destination] = ()
        if destinations:
            self._destinations = SourceOptions.of({"url": url, "destinations": destinations}).destinations

    def keep(self, frame: DataFrame) -> DataFrame:
        """Let what is read of a frame be kept until `let_go`: it is gone through more than once."""
        self._kept.append(frame.persist())
        return frame

    def let_go(self) -> None:
        """Drop the frames that were kept: the next audit would find them in place of newer ones."""
        while self._kept:
            self._kept.pop().unpersist()

    # --- files --------------------------------------------------------------------------------------------------------

    def events_in(self, files: Sequence[str]) -> tuple[DataFrame, int]:
        """The events that files name, and how many lines of them could not be read: a producer that is killed leaves one."""
        found = self.keep(reduce(lambda one, other: one.unionByName(other), [self._file(file) for file in files]))
        is_one, is_many = F.col("id").isNotNull(), F.col("first_id").isNotNull()
        unread = found.where(~((is_one | is_many) & F.col("destination").isNotNull())).count()
        if unread and unread == found.count():
            raise BadSetting(
                f"nothing in {', '.join(files)} says what was receipted; each line needs destination and id, such as "
                '{"destination": "orders", "id": "…", "position": 262144}',
                setting="receipts",
            )
        one = found.where(is_one & F.col("destination").isNotNull()).select("destination", "id", "position")
        return self.meant(one.unionByName(_expanded(found.where(~is_one & is_many)))), unread

    def _file(self, file: str) -> DataFrame:
        if not file.rstrip("/").endswith(".parquet"):
            reader = self._spark.read.schema(RECEIPT).option("columnNameOfCorruptRecord", "unread")
            return reader.json(file).drop("unread")
        there = self._spark.read.parquet(file)
        wanted = [part.split() for part in RECEIPT.split(", ")[:-1]]
        return there.select(
            *((F.col(name) if name in there.columns else F.lit(None)).cast(kind).alias(name) for name, kind in wanted)
        )

    def archived(self, table: str) -> DataFrame:
        return self.meant(self._spark.read.format("holdfast_lake").load(table).select(*COLUMNS.split(",")))

    # --- a server, or a folder ----------------------------------------------------------------------------------------

    def waiting(self) -> DataFrame:
        options = {"subscription": self._subscription} if self._subscription else {}
        return self._read(destinations=self._names, **options)

    def dead(self) -> DataFrame:
        return self.meant(self._read(destinations=DEAD))

    def _read(self, **options: str) -> DataFrame:
        return self._spark.read.format("holdfast").options(url=self._url, columns=COLUMNS, **options).load()

    def account(self) -> list[Account]:
        """The server's counts for each subscription (or queue) that is meant; NoSuchSubscription when there is none."""
        url = parse(self._url)
        with Observer(url.folder) if isinstance(url, FileUrl) else blocking.connect(self._url, name="audit") as place:
            return [account for each in self._destinations for account in self._accounts(place, each)]

    def _accounts(self, place: Any, destination: Destination) -> list[Account]:
        if not self._subscription:
            queues = [each for each in place.destinations() if each["kind"] == "queue" and _is_meant(destination, each["name"])]
            return [_account(place.describe(each["name"]), each["name"], "") for each in queues]
        found = [each for each in _subscriptions(place, destination) if each["name"] == self._subscription]
        if not found:
            raise NoSuchSubscription(
                f"{destination.name} has no subscription '{self._subscription}'; name the one that the archive reads",
                subscription=self._subscription,
            )
        return [_account(each, destination.name, self._subscription) for each in found[:1]]

    # --- what is meant ------------------------------------------------------------------------------------------------

    def meant(self, frame: DataFrame) -> DataFrame:
        """Keep the events of the destinations that are audited, where these are named; see `only_meant`."""
        if not self._destinations or self._has_patterns:
            return frame
        return frame.where(F.col("destination").isin([each.name for each in self._destinations]))

    def only_meant(self, events: DataFrame) -> DataFrame:
        """Keep the events of the destinations that patterns match: in Python, for each name that occurs, as the server does."""
        if not self._has_patterns:
            return events
        names = [row[0] for row in events.select("destination").distinct().collect()]
        meant = [name for name in names if any(_is_meant(each, name) for each in self._destinations)]
        return events.where(F.col("destination").isin(meant) if meant else F.lit(False))

    @property
    def _has_patterns(self) -> bool:
        return any(each.match != "name" for each in self._destinations)


def _is_meant(destination: Destination, name: str) -> bool:
    if destination.match == "name":
        return destination.name == name
    pattern = Pattern.glob(destination.name) if destination.match == "glob" else Pattern.regex(destination.name)
    return pattern.matches(name)


def _subscriptions(place: Any, destination: Destination) -> list[dict[str, Any]]:
    """Choose the subscriptions of a topic by its name, or those of a pattern."""
    if isinstance(place, Observer):
        found = place.subscriptions(destination.name, destination.match)
    else:
        found = place.subscriptions(destination.name)
    is_pattern = destination.match != "name"
    return [each for each in found if (each["pattern"] is not None) == is_pattern]


def _account(described: dict[str, Any], destination: str, subscription: str) -> Account:
    counts = {name: described[name] for name in ("accepted", "confirmed", "dead", "expired", "waiting")}
    return Account(destination=destination, subscription=subscription, **counts)


def _expanded(runs: DataFrame) -> DataFrame:
    """Events that were receipted as a run, one by one. Their ids follow each other; their positions are not told."""
    first = F.col("first_id")
    count = F.coalesce(F.col("count"), F.lit(1))
    last = F.coalesce(counter_of(F.col("last_id")), counter_of(first) + count - 1)
    counters = F.when(count > 1, F.sequence(counter_of(first), last)).otherwise(F.array(counter_of(first)))
    each = runs.select("destination", first, F.explode(counters).alias("counter"))
    identifier = F.coalesce(id_of(producer_of(first), F.col("counter")), first)
    return each.select("destination", identifier.alias("id"), F.lit(None).cast("long").alias("position"))
