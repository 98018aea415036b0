"""The errors of a rehearsal. Each message is a sentence for the person at the terminal, with what to do next."""


class RehearsalError(Exception):
    """Something the person who started the rehearsal can understand and act on."""


class BadInputError(RehearsalError):
    """What was asked for cannot be meant: a stack, a model or a file that is not there or not in order."""


class ControlPlaneError(RehearsalError):
    """A process of the embedded control plane did not start, or ended by itself."""


class ApiError(RehearsalError):
    """The API server refused a request. `status` is the HTTP code, `message` the server's own words."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the code beside the words, because a missing object (404) is often no error."""
        super().__init__(message)
        self.status = status
        self.message = message


class ApiUnreachableError(RehearsalError):
    """No answer from the API server."""


class EngineError(RehearsalError):
    """The Pulumi engine or the program ended with an error. The message holds the engine's own diagnostics."""
