from services.gateway.clients.sibling import Query, Sibling, segment
from services.gateway.domain.answers import Answer


class MeteringClient(Sibling):
    """Which seconds were used."""

    async def usage(self, account_id: str, query: Query) -> Answer:
        return await self.get(f"/v1/accounts/{segment(account_id)}/usage", query)

    async def republications(self, query: Query) -> Answer:
        return await self.get("/v1/republish", query)
