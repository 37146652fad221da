"""A gateway on a real database and broker, and keys to it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from services.gateway.domain.principals import Role
from shared.database import Database
from shared.settings import KafkaSettings
from tests.support.databases import DatabaseUrls, MakeDatabase, unique_suffix
from tests.support.gateway import Gateway, opening, running_gateway


@pytest.fixture(scope="session")
async def gateway_urls(make_database: MakeDatabase) -> DatabaseUrls:
    return await make_database("gateway")


@pytest.fixture(scope="session")
def kafka(kafka_bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=kafka_bootstrap)


@pytest.fixture(scope="session")
async def gateway(gateway_urls: DatabaseUrls, kafka: KafkaSettings) -> AsyncIterator[Gateway]:
    async with running_gateway(gateway_urls, kafka) as running:
        yield running


@pytest.fixture(scope="session")
async def owner(gateway_urls: DatabaseUrls) -> AsyncIterator[Database]:
    """Looks into the gateway's tables as their owner."""
    database = Database(gateway_urls.owner_url, pool_size=2)
    yield database
    await database.close()


@pytest.fixture
async def operator(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client(await gateway.key(Role.OPERATOR)) as client:
        yield client


@pytest.fixture
async def account_id(operator: httpx.AsyncClient) -> str:
    """A fresh account without a trial, which needs no price book."""
    account_id = f"acct-{unique_suffix()}"
    response = await operator.post("/v1/accounts", json=opening(account_id))
    assert response.status_code == 201, response.text
    return account_id
