"""Where an unfinished position of a backlog stands, as its primary knows it. What is not kept anywhere is fresh, or asleep.

fresh        never handed out by this primary: at or after the cursor of its lane
asleep       passed by the cursor because the time its producer named has not come (see `asleep`)
held         in flight with a receiver
returned     waiting again
preferred    waiting, and first of all after a start (A7)
delayed      waiting again, not before a time
given up     redelivered too often, or expired: on its way to the dead queue
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from holdfast.destination.credit import Receiver


class Waiting(enum.Enum):
    FRESH = 0  # never kept
    RETURNED = 1
    PREFERRED = 2
    GIVEN_UP = 3


class Delayed(NamedTuple):
    not_before_ms: int


Standing = Receiver | Delayed | Waiting
FRESH, RETURNED, PREFERRED, GIVEN_UP = Waiting.FRESH, Waiting.RETURNED, Waiting.PREFERRED, Waiting.GIVEN_UP
FREE = (FRESH, RETURNED, PREFERRED)
