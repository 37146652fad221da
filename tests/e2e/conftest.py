"""One running system for the whole session: topics have fixed names, so a broker carries one stack."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.clients import GatewayClient, NodeAgent, node_agent
from tests.support.databases import MakeDatabase
from tests.support.stack import Stack, running_stack

SETTINGS = {
    "WALLET_SWEEP_EVERY_SECONDS": "0.2",
    "WALLET_SETTLE_QUIET_SECONDS": "1",
    "GATEWAY_KEY_CACHE_SECONDS": "0.5",
}
"""What makes a test quicker than production without changing what it does."""


@pytest.fixture(scope="session")
async def stack(make_database: MakeDatabase, kafka_bootstrap: str) -> AsyncIterator[Stack]:
    """The system that OPERATOR_KEY opens, if there is such a key, else one of our own."""
    key = os.environ.get("OPERATOR_KEY")
    if key:
        yield Stack(os.environ["GATEWAY_URL"], kafka_bootstrap, key, {})
        return
    async with running_stack(make_database, kafka_bootstrap, SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
async def operator(stack: Stack) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(stack.gateway_url, stack.operator_key) as client:
        yield client


@pytest.fixture(scope="session")
async def agent(stack: Stack) -> AsyncIterator[NodeAgent]:
    async with node_agent(stack.kafka_bootstrap) as reporting:
        yield reporting
