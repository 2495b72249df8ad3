"""Recording without a server: events are on disk when `record` returns, and are forwarded when somebody can take them."""

from holdfast.recorder.contents import RecorderContents
from holdfast.recorder.recorder import Recorded, Recorder

__all__ = ["Recorded", "Recorder", "RecorderContents"]
