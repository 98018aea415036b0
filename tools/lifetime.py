"""What is started and stopped around a `with` block, and stopped too when it does not start whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Startable(ABC):
    """Servers and clusters of this machine: `with Server(...) as server:`."""

    @abstractmethod
    def start(self) -> object:
        """Start, and wait until it can be used."""

    @abstractmethod
    def stop(self) -> object:
        """End everything that was started, however far the start came."""

    def __enter__(self) -> Self:
        """Start; what has begun is ended when the start fails."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and wait until nothing runs."""
        self.stop()
