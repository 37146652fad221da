"""The table of roles and operations, cell by cell, and what is told to those who may not."""

import pytest

from services.gateway.domain.permissions import (
    ON_ONE_ACCOUNT,
    PERMITTED,
    Operation,
    require,
    require_on,
    sees_account,
)
from services.gateway.domain.principals import Principal, Role
from services.gateway.domain.refusals import Forbidden
from shared.errors import NotFound

MINE, OTHERS = "acct-mine", "acct-others"

CALLERS = {
    Role.OPERATOR: Principal("k", Role.OPERATOR),
    Role.FINANCE: Principal("k", Role.FINANCE),
    Role.PARTNER: Principal("k", Role.PARTNER, frozenset({MINE, "acct-second"})),
    Role.CUSTOMER: Principal("k", Role.CUSTOMER, frozenset({MINE})),
    Role.AGENT: Principal("k", Role.AGENT, source_prefix="/nodes/bj"),
}

# Who may, in the order operator, finance, partner, customer, agent.
TABLE = {
    Operation.POST_EVENTS: "x...x",
    Operation.OPEN_ACCOUNT: "x....",
    Operation.LIST_ACCOUNTS: "xxx..",
    Operation.READ_ACCOUNT: "xxxx.",
    Operation.READ_BALANCE: "xxxx.",
    Operation.READ_JOURNAL: "xxxx.",
    Operation.READ_USAGE: "xxxx.",
    Operation.READ_CHARGES: "xxxx.",
    Operation.TOP_UP: "x....",
    Operation.GRANT_CREDIT: "x....",
    Operation.READ_PRICES: "xxxx.",
    Operation.PUBLISH_PRICES: "x....",
    Operation.QUOTE: "xxxx.",
    Operation.PLACE_HOLD: "x.x..",
    Operation.RELEASE_HOLD: "x.x..",
    Operation.READ_EXCEPTIONS: "xx...",
    Operation.MANAGE_KEYS: "x....",
}


def test_every_operation_and_role_is_in_the_table() -> None:
    assert set(TABLE) == set(Operation)
    assert set(PERMITTED) == set(Role) == set(CALLERS)


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_the_table_says(role: Role, operation: Operation) -> None:
    expected = TABLE[operation][list(Role).index(role)] == "x"
    if expected:
        require(CALLERS[role], operation)
    else:
        with pytest.raises(Forbidden):
            require(CALLERS[role], operation)


@pytest.mark.parametrize("operation", sorted(ON_ONE_ACCOUNT))
@pytest.mark.parametrize("role", [Role.PARTNER, Role.CUSTOMER, Role.AGENT])
def test_an_account_of_others_is_not_there_whatever_is_asked(role: Role, operation: Operation) -> None:
    with pytest.raises(NotFound):
        require_on(CALLERS[role], operation, OTHERS)


@pytest.mark.parametrize("operation", [Operation.TOP_UP, Operation.GRANT_CREDIT, Operation.PLACE_HOLD])
def test_on_its_own_account_a_customer_hears_that_it_may_not(operation: Operation) -> None:
    with pytest.raises(Forbidden):
        require_on(CALLERS[Role.CUSTOMER], operation, MINE)


def test_who_sees_which_account() -> None:
    seen = {role: [sees_account(caller, name) for name in (MINE, OTHERS)] for role, caller in CALLERS.items()}
    assert seen == {
        Role.OPERATOR: [True, True],
        Role.FINANCE: [True, True],
        Role.PARTNER: [True, False],
        Role.CUSTOMER: [True, False],
        Role.AGENT: [False, False],
    }


@pytest.mark.parametrize(
    ("prefix", "source", "expected"),
    [
        ("/nodes/bj", "/nodes/bj", True),
        ("/nodes/bj", "/nodes/bj/017", True),
        ("/nodes/bj", "/nodes/bj-2", False),
        ("/nodes/bj", "/nodes", False),
        ("/nodes/bj/", "/nodes/bj/017", True),
        ("/nodes/bj/", "/nodes/bj", False),
        ("/", "/nodes/bj", True),
    ],
)
def test_a_source_lies_under_a_prefix_by_whole_segments(prefix: str, source: str, expected: bool) -> None:
    assert Principal("k", Role.AGENT, source_prefix=prefix).may_report_as(source) is expected


def test_an_operator_reports_as_any_source_and_a_customer_as_none() -> None:
    assert CALLERS[Role.OPERATOR].may_report_as("/anything")
    assert not CALLERS[Role.CUSTOMER].may_report_as("/anything")
