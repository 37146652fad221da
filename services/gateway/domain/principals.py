"""Who is calling: a role, and what its key is bound to."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    OPERATOR = "operator"
    FINANCE = "finance"
    PARTNER = "partner"
    CUSTOMER = "customer"
    AGENT = "agent"


@dataclass(frozen=True)
class Principal:
    """A caller whose key was found and is not revoked.

    `account_ids` bind partners and customers, `source_prefix` binds agents; both are empty for the rest.
    """

    key_id: str
    role: Role
    account_ids: frozenset[str] = frozenset()
    source_prefix: str | None = None

    def may_report_as(self, source: str) -> bool:
        """Agents report as sources under their prefix, by whole segments: /nodes/ab is not under /nodes/a."""
        prefix = self.source_prefix
        if prefix is None:
            return self.role is Role.OPERATOR
        if any(segment in (".", "..") for segment in source.split("/")):
            return False  # whoever reads it as a path would look elsewhere
        return source.startswith(prefix) and (
            len(source) == len(prefix) or prefix[-1] == "/" or source[len(prefix)] == "/"
        )
