"""Refusals, named after the rule that said no; the edge picks the status (shared.problems)."""


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """A business rule said no: `code` is stable, `detail` is for people, `facts` its numbers."""

    code = "refused"

    def __init__(self, detail: str, **facts: str | int | None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts


class Invalid(Refusal):
    """The request does not mean anything the contract knows."""

    code = "invalid_request"


class NotFound(Refusal):
    """There is no such thing, or the caller may not know of it."""

    code = "not_found"


class Conflict(Refusal):
    """The same name was used before with other content (R19), or the state has moved on."""

    code = "conflict"


class InsufficientFunds(Refusal):
    """Available does not cover it; facts: `shortfall`, a CNY string (R17)."""

    code = "insufficient_funds"


class Unavailable(Refusal):
    """A part that is needed does not answer; the same call may go through later."""

    code = "unavailable"


class EventRefused(Exception):  # noqa: N818 - as Refusal
    """A usage report that breaks a limit of DESIGN 3; goes back to the sender or to the dead letters."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
