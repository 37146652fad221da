"""The embedded stack's ports, variables and words."""

from pathlib import Path

import pytest

from deploy.stack.errors import StackError
from deploy.stack.processes import died, last_line
from deploy.stack.settings import Plan, Ports, Secrets, read_stack_env, stack_variables, write_stack_env

SECRETS = Secrets(postgres="p0", metering="m1", pricing="p1", wallet="w1", gateway="g1")


def test_an_offset_moves_every_port_that_no_variable_names() -> None:
    ports = Ports.from_environment({"KAFKA_PORT": "19092"}, offset=100)
    assert (ports.gateway, ports.postgres, ports.kafka) == (8180, 5532, 19092)


@pytest.mark.parametrize(
    ("environment", "offset", "said"),
    [
        ({"WALLET_PORT": "many"}, 0, "WALLET_PORT is 'many'"),
        ({"WALLET_PORT": "70000"}, 0, "70000"),
        ({"WALLET_PORT": "8080"}, 0, "share a port"),
        ({}, 60_000, "not between 1 and 65535"),
        ({}, -6_000, "not between 1 and 65535"),
    ],
)
def test_a_port_that_cannot_be_is_refused_with_its_name(
    environment: dict[str, str], offset: int, said: str
) -> None:
    with pytest.raises(StackError, match=said):
        Ports.from_environment(environment, offset)


def test_stack_env_holds_what_services_and_people_need(tmp_path: Path) -> None:
    plan = Plan(run_dir=tmp_path, ports=Ports())
    variables = stack_variables(plan, SECRETS.with_operator_key("key"))
    write_stack_env(plan, variables)

    assert read_stack_env(plan.stack_env) == variables
    assert plan.stack_env.stat().st_mode & 0o777 == 0o600
    assert variables["GATEWAY_URL"] == "http://127.0.0.1:8080"
    assert variables["KAFKA_BOOTSTRAP"] == "127.0.0.1:9092"
    assert variables["POSTGRES_URL"] == "postgresql://postgres:p0@127.0.0.1:5432/postgres"
    assert variables["WALLET_DATABASE_URL"] == "postgresql+asyncpg://wallet:w1@127.0.0.1:5432/wallet"
    assert variables["OPERATOR_KEY"] == "key"


def test_only_tansu_goes_without_the_idempotent_producer(tmp_path: Path) -> None:
    on_tansu = stack_variables(Plan(run_dir=tmp_path, ports=Ports()), SECRETS)
    on_kafka = stack_variables(Plan(run_dir=tmp_path, ports=Ports(), broker="apache"), SECRETS)
    assert (on_tansu["KAFKA_ENABLE_IDEMPOTENCE"], on_kafka["KAFKA_ENABLE_IDEMPOTENCE"]) == ("false", "true")


def test_secrets_are_made_once(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    made = Secrets.load_or_create(path)
    assert Secrets.load_or_create(path) == made
    assert len({made.of(role) for role in ("postgres", "metering", "pricing", "wallet", "gateway")}) == 5


def test_damaged_secrets_are_told_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text('{"postgres": ')
    with pytest.raises(StackError, match="damaged"):
        Secrets.load_or_create(path)
    assert path.read_text() == '{"postgres": '


def test_a_death_is_told_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "wallet.log"
    log.write_text("Traceback ...\nFATAL:  no such role\nHINT:  make it\n\n")
    assert last_line(log) == "FATAL:  no such role"
    assert died("wallet", 3, log) == f"wallet ended with exit code 3: FATAL:  no such role (log: {log})"
    assert died("wallet", -9, log) == f"wallet was killed by SIGKILL (log: {log})"
