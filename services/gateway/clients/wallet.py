from http import HTTPStatus
from typing import Any

import msgspec

from services.gateway.clients.sibling import Query, Sibling, segment
from services.gateway.domain.answers import Answer
from shared.errors import Unavailable


class WalletClient(Sibling):
    """What an account has, owes and was charged."""

    async def is_open(self, account_id: str) -> bool:
        """Whether it has heard that the account was opened; a charge alone makes a wallet that is not."""
        answer = await self.get(f"/v1/accounts/{segment(account_id)}")
        return answer.status == HTTPStatus.OK and msgspec.json.decode(answer.body, type=_Wallet).opened

    async def balance(self, account_id: str) -> Answer:
        return _of_open_wallet(account_id, await self.get(_account(account_id, "balance")))

    async def journal(self, account_id: str, query: Query) -> Answer:
        return _of_open_wallet(account_id, await self.get(_account(account_id, "journal"), query))

    async def charges(self, account_id: str, query: Query) -> Answer:
        return _of_open_wallet(account_id, await self.get(_account(account_id, "charges"), query))

    async def top_up(self, account_id: str, body: Any) -> Answer:
        return _of_open_wallet(account_id, await self.post(_account(account_id, "top-ups"), body))

    async def grant(self, account_id: str, body: Any) -> Answer:
        return _of_open_wallet(account_id, await self.post(_account(account_id, "grants"), body))

    async def place_hold(self, account_id: str, body: Any) -> Answer:
        return _of_open_wallet(account_id, await self.post("/v1/holds", body))

    async def release_hold(self, hold_id: str, account_id: str | None) -> Answer:
        """404 if there is no such hold, or if it is not of `account_id`, where that is given."""
        return await self.delete(f"/v1/holds/{segment(hold_id)}", {"account_id": account_id})

    async def unknown_accounts(self, query: Query) -> Answer:
        return await self.get("/v1/unknown-accounts", query)


class _Wallet(msgspec.Struct):
    opened: bool


def _account(account_id: str, part: str) -> str:
    return f"/v1/accounts/{segment(account_id)}/{part}"


def _of_open_wallet(account_id: str, answer: Answer) -> Answer:
    """The gateway knows the account, so a wallet that does not has only not heard of it yet."""
    if answer.status == HTTPStatus.NOT_FOUND:
        raise Unavailable(f"the wallet of account {account_id!r} is still being opened; try again")
    return answer
