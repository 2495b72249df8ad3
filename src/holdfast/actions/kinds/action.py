"""An action: what is done about an alert. Own kinds are subclasses, found by the entry point `holdfast.actions`.

    class Page(Action):
        class Settings(msgspec.Struct, kw_only=True):
            number: str

        def do(self, alerts: Sequence[Alert]) -> None:
            call(self.settings.number, alerts[0].summary)

    [project.entry-points."holdfast.actions"]
    page = "mypackage.page:Page"

`do` runs in a thread of the action's own, never in the event loop: it may block. When it returns, the alerts are confirmed.
When it raises, they are tried again later, and after the last try go to the dead events with the exception's text. A program
that is killed between `do` and the confirm does them again: with the same `alert.id`, `alert.idempotency_key`, and
`is_repeated`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.kinds.figures import Figures
from holdfast.actions.secrets import Secrets

Complaint = tuple[str, str]  # a setting, and what is wrong with it


class Surroundings:
    """What actions of one program share."""

    def __init__(self, program: str, folder: Path | None = None, secrets: Secrets | None = None) -> None:
        self.program = program
        self.folder = folder or Path()  # relative paths are meant from here
        self.secrets = secrets or Secrets(self.folder)
        self.metrics = ""  # the address at which counters are shown; "" for none
        self.figures = Figures()
        self._shared: dict[str, Any] = {}
        self._lock = threading.Lock()  # actions run in threads

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """A thing that all actions share, such as counters. It is made once, and outlives a reload of the rules."""
        with self._lock:
            if name not in self._shared:
                self._shared[name] = make()
            return self._shared[name]

    @property
    def is_sharing(self) -> bool:
        """Something was made that is shared."""
        return bool(self._shared)

    def path(self, text: str) -> Path:
        return self.folder / Path(text).expanduser()


class Action(ABC):
    """One action of one rule."""

    class Settings(msgspec.Struct, kw_only=True):
        """The settings of this kind, as the rules file has them."""

    # Settings that are templates: they are tried on a sample when rules are checked.
    TEMPLATES: ClassVar[tuple[str, ...]] = ()
    # So many alerts are handed to `do` at once, if so many wait.
    BATCH_MAX: ClassVar[int] = 1
    # It shows counters at the address `metrics` of the rules file.
    NEEDS_METRICS: ClassVar[bool] = False

    def __init__(self, settings: Any, surroundings: Surroundings) -> None:
        """Make it ready without doing anything: rules are checked with it, too."""
        self.settings = settings
        self.surroundings = surroundings

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        """Mistakes that the types of the settings do not tell."""
        return iter(())

    @classmethod
    def shares(cls, settings: Any) -> tuple[str, object] | None:
        """The name of what actions of all rules share, and what has to be the same in all of them; None if nothing is shared."""
        return None

    def open(self) -> None:  # noqa: B027 - most have nothing to open
        """Alerts may come. Runs in the thread of the action; what it raises is logged, and `do` is called all the same."""

    @property
    def gather_s(self) -> float:
        """How long to wait for more alerts, up to BATCH_MAX, before they are handed to `do`."""
        return 0.0

    @abstractmethod
    def do(self, alerts: Sequence[Alert]) -> None:
        """Do it. Runs in a thread. Raise to have it tried again; ActionRefused to give it up at once."""

    def describe(self, alert: Alert) -> str:
        """What would be done, for a dry run."""
        return f"do {type(self).__name__} for {alert.summary!r}"

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """No more alerts will come."""

    def filled(self, setting: str, alert: Alert) -> str:
        """A setting that is a template, filled in."""
        return alert.fill_text(getattr(self.settings, setting))


class FunctionAction(Action):
    """A plain function of the program as an action: `Rule(…, actions=[page])`."""

    def __init__(self, function: Callable[[Alert], object], surroundings: Surroundings) -> None:
        super().__init__(None, surroundings)
        self._function = function

    def do(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self._function(alert)

    def describe(self, alert: Alert) -> str:
        return f"call {getattr(self._function, '__qualname__', self._function)!s} with {alert.summary!r}"
