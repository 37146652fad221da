"""What a key looks like, and what each role is bound to."""

import pytest

from services.gateway.domain.api_keys import bind, hash_of, looks_like_key, secret_from, shown_part
from services.gateway.domain.principals import Role
from shared.errors import Invalid


def test_a_key_has_256_bits_and_shows_only_its_beginning() -> None:
    secret = secret_from(bytes(range(32)))
    assert looks_like_key(secret)
    assert len(secret) == 46
    assert secret.startswith(shown_part(secret))
    assert len(shown_part(secret)) == 11


def test_only_a_digest_is_stored() -> None:
    secret = secret_from(b"\x01" * 32)
    assert len(hash_of(secret)) == 32
    assert secret.encode() not in hash_of(secret)
    assert hash_of(secret) != hash_of(secret_from(b"\x02" * 32))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gk_",
        "gk_" + "A" * 42,
        "gk_" + "A" * 44,
        "gk_" + "A" * 42 + "!",
        "sk_" + "A" * 43,
        "gk_" + "é" * 43,
    ],
)
def test_what_is_no_key_is_seen_without_asking_the_database(text: str) -> None:
    assert not looks_like_key(text)


@pytest.mark.parametrize(
    ("role", "accounts", "prefix"),
    [
        (Role.OPERATOR, ["a"], None),
        (Role.FINANCE, ["a"], None),
        (Role.CUSTOMER, [], None),
        (Role.CUSTOMER, ["a", "b"], None),
        (Role.PARTNER, [], None),
        (Role.AGENT, [], None),
        (Role.AGENT, ["a"], "/nodes"),
        (Role.OPERATOR, [], "/nodes"),
        (Role.AGENT, [], "no spaces"),
        (Role.CUSTOMER, ["no spaces"], None),
    ],
)
def test_a_key_bound_to_too_little_or_too_much_is_refused(
    role: Role, accounts: list[str], prefix: str | None
) -> None:
    with pytest.raises(Invalid):
        bind("k", role, frozenset(accounts), prefix)


def test_each_role_is_bound_to_what_it_needs() -> None:
    assert bind("k", Role.OPERATOR, frozenset(), None).account_ids == frozenset()
    assert bind("k", Role.CUSTOMER, frozenset({"a"}), None).account_ids == {"a"}
    assert bind("k", Role.PARTNER, frozenset({"a", "b"}), None).account_ids == {"a", "b"}
    assert bind("k", Role.AGENT, frozenset(), "/nodes").source_prefix == "/nodes"
