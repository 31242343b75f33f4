"""What a broker refuses is told within 15 seconds, with the table, the broker, what was refused and what to check; and
nobody tries it again and again."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from guarded import (
    OAUTH,
    PLAIN,
    READ,
    SETTINGS,
    USERS,
    WRITE,
    Guarded,
    counted,
    login,
    refusal,
    run,
    table,
)

from harness.java import SHORT_LIVED
from tidemill import Session
from tidemill.broker import Broker, start

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# Of one start of a job: the knock, the client's own connection, and what a look at the listener takes.
MOST_CONNECTIONS = 12
# Of one start of a job, which asks for the rights to a name in up to three ways.
MOST_DENIALS = 3


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    broker = start(tmp_path_factory.mktemp("guarded"), port=0, settings=SETTINGS)
    yield Guarded(broker)
    broker.stop()


Names = Callable[..., str]


# --- who one is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(
    spark: Any, guarded: Guarded, topic_name: Names, mechanism: str, statement: str
) -> None:
    with counted(guarded.broker.port) as proxy:
        wrong = login("alice", "not-this-one", mechanism)
        told = refusal(spark, table(proxy.bootstrap, topic_name(), wrong) + statement)
        assert told.code == "RUN-007"
        assert (
            f"table 't': looking up topics: the broker at {proxy.bootstrap} refused" in told.message
        )
        assert f"a login by {mechanism}" in told.message
        assert told.hint == "check the user and the password in 'properties.sasl.jaas.config'"
        assert "not-this-one" not in told.message
        time.sleep(1)
        assert proxy.connections <= 3


def test_a_user_that_is_not_known(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    told = refusal(
        spark, table(guarded.broker.bootstrap, topic_name(), login("nobody", "x" * 9)) + READ
    )
    assert told.code == "RUN-007"


def test_a_mechanism_that_is_not_enabled(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    access = login("alice") | {"properties.sasl.mechanism": "SCRAM-SHA-1"}
    told = refusal(spark, table(guarded.broker.bootstrap, topic_name(), access) + READ)
    assert told.code in ("RUN-007", "RUN-008")
    access = login("alice") | {"properties.sasl.mechanism": "SCRAM-SHA-256"}
    told = refusal(spark, table(guarded.broker.bootstrap, topic_name(), access) + READ)
    assert told.code in ("RUN-007", "RUN-008")


def test_a_client_without_a_login(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    with counted(guarded.broker.port) as proxy:
        told = refusal(spark, table(proxy.bootstrap, topic_name(), {}) + READ)
        assert told.code == "RUN-007"
        assert "speaks SASL_PLAINTEXT (it takes " in told.message
        assert "'properties.security.protocol' is PLAINTEXT" in told.message
        time.sleep(1)
        assert proxy.connections <= MOST_CONNECTIONS


def test_a_login_where_none_is_asked_for(spark: Any, broker: Broker, topic_name: Names) -> None:
    with counted(broker.port) as proxy:
        told = refusal(spark, table(proxy.bootstrap, topic_name(), login("alice")) + READ)
        assert told.code == "RUN-007"
        assert "properties.security.protocol" in (told.hint or "")
        assert proxy.connections <= MOST_CONNECTIONS


def test_tls_where_none_is_spoken(spark: Any, broker: Broker, topic_name: Names) -> None:
    with counted(broker.port) as proxy:
        access = {"properties.security.protocol": "SSL"}
        told = refusal(spark, table(proxy.bootstrap, topic_name(), access) + WRITE)
        assert told.code == "RUN-007"
        assert f"the broker at {proxy.bootstrap} speaks PLAINTEXT, and" in told.message
        assert "'properties.security.protocol' is SSL" in told.message
        assert proxy.connections <= MOST_CONNECTIONS


def test_a_token_that_is_not_valid(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    access = login("alice", "", "OAUTHBEARER")
    line = (
        access["properties.sasl.jaas.config"].rstrip(";") + ' unsecuredLoginLifetimeSeconds="-60";'
    )
    access["properties.sasl.jaas.config"] = line
    told = refusal(spark, table(guarded.broker.bootstrap, topic_name(), access) + READ)
    assert told.code in ("RUN-007", "RUN-008")
    assert "OAUTHBEARER" in told.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "no.such.Module required",
            "the login module in 'properties.sasl.jaas.config' is not there",
        ),
        (f"{PLAIN} required username=", "cannot be made"),
    ],
)
def test_a_jaas_line_that_is_none(
    spark: Any, guarded: Guarded, topic_name: Names, line: str, said: str
) -> None:
    access = login("alice") | {"properties.sasl.jaas.config": line}
    told = refusal(spark, table(guarded.broker.bootstrap, topic_name(), access) + READ)
    assert told.code == "RUN-008"
    assert said in told.message


# --- a token that somebody else gives -------------------------------------------------------------


class _NoClientHere(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = b'{"error": "invalid_client"}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        self.server.asked += 1  # type: ignore[attr-defined]


@pytest.fixture
def token_endpoint() -> Iterator[HTTPServer]:
    """It knows nobody; `.asked` counts who has tried."""
    server = HTTPServer(("127.0.0.1", 0), _NoClientHere)
    server.asked = 0  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield server
    server.shutdown()
    server.server_close()
    serving.join(10)


def test_a_token_endpoint(
    spark: Any, guarded: Guarded, topic_name: Names, token_endpoint: HTTPServer
) -> None:
    """With the options that the documentation prints."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/token"
    url = f"http://127.0.0.1:{token_endpoint.server_port}/token"

    def script(endpoint: str) -> str:
        access = {
            "properties.security.protocol": "SASL_PLAINTEXT",
            "properties.sasl.mechanism": "OAUTHBEARER",
            "properties.sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "properties.sasl.oauthbearer.token.endpoint.url": endpoint,
            "properties.sasl.jaas.config": f'{OAUTH} required clientId="me" clientSecret="not-this-one";',
        }
        return table(guarded.broker.bootstrap, topic_name(), access)

    for statement in (READ, WRITE):
        told = refusal(spark, script(url) + statement)
        assert told.code == "RUN-007", told.message
        refused = f"table 't': the login by OAUTHBEARER for {guarded.broker.bootstrap} failed: "
        assert told.message.startswith(f"{refused}The response code 401 ")
        assert "\n" not in told.message
        assert "not-this-one" not in told.message
        assert "'properties.sasl.jaas.config'" in (told.hint or "")
    asked: int = token_endpoint.asked  # type: ignore[attr-defined]
    assert 2 <= asked <= 4

    # It may come back, so that the client tries for a while; no longer than a refusal may take.
    told = refusal(spark, script(nobody) + READ)
    assert told.code == "RUN-001", told.message
    assert "no answer from the token endpoint" in told.message
    assert "'properties.sasl.oauthbearer.token.endpoint.url'" in (told.hint or "")

    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    system = spark._jvm.java.lang.System
    system.setProperty(allowed, nobody)
    try:
        told = refusal(spark, script(url) + READ)
    finally:
        system.clearProperty(allowed)
    assert told.code == "RUN-008", told.message
    assert "'properties.sasl.oauthbearer.token.endpoint.url' is not" in told.message
    assert f"-D{allowed}=URL" in (told.hint or "")
    assert token_endpoint.asked == asked  # type: ignore[attr-defined]


# --- what one may --------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_seen(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    topic = guarded.create(topic_name())
    for statement in (READ, WRITE):
        told = refusal(spark, table(guarded.broker.bootstrap, topic, login("alice")) + statement)
        assert told.code == "RUN-007"
        refused = f"the broker at {guarded.broker.bootstrap} refused topic '{topic}'"
        assert f"table 't': looking up topics: {refused}" in told.message
        assert f"--topic '{topic}'" in (told.hint or "")
    time.sleep(1)
    assert 2 <= guarded.denials(topic) <= 2 * MOST_DENIALS


@pytest.mark.parametrize(
    ("statement", "granted", "lacked"),
    [(READ, "WRITE", "READ"), (READ, "DESCRIBE", "READ"), (WRITE, "READ", "WRITE")],
)
def test_a_topic_that_may_only_be_seen(
    spark: Any, guarded: Guarded, topic_name: Names, statement: str, granted: str, lacked: str
) -> None:
    topic = guarded.create(topic_name(), '{"n": 1}')
    guarded.allow("alice", granted, "TOPIC", topic)
    told = refusal(spark, table(guarded.broker.bootstrap, topic, login("alice")) + statement)
    assert told.code == "RUN-007"
    assert told.message == (
        f"table 't': the broker at {guarded.broker.bootstrap} does not let the table's user {lacked} topic '{topic}'"
    )
    assert f"--operation {lacked} --topic '{topic}'" in (told.hint or "")
    assert guarded.denials(topic) <= MOST_DENIALS


@pytest.mark.parametrize("right", [None, "DESCRIBE"])
def test_a_group(spark: Any, guarded: Guarded, topic_name: Names, right: str | None) -> None:
    topic, group = guarded.create(topic_name(), '{"n": 1}'), topic_name("g")
    guarded.allow("alice", "READ", "TOPIC", topic)
    if right is not None:
        guarded.allow("alice", right, "GROUP", group)
    script = table(guarded.broker.bootstrap, topic, login("alice"), properties_group_id=group)
    told = refusal(spark, script + READ)
    assert told.code == "RUN-007"
    assert f"refuses group '{group}' to the table's user" in told.message
    assert f"--operation READ --group '{group}'" in (told.hint or "")
    assert guarded.denials(group) <= MOST_DENIALS
    guarded.allow("alice", "READ", "GROUP", group)
    assert run(spark, script + READ) == ['{"n":1}']


def test_a_table_without_a_group_needs_no_right_to_one(
    spark: Any, guarded: Guarded, topic_name: Names
) -> None:
    topic = guarded.create(topic_name(), '{"n": 1}')
    guarded.allow("alice", "READ", "TOPIC", topic)
    assert run(spark, table(guarded.broker.bootstrap, topic, login("alice")) + READ) == ['{"n":1}']


def test_writing_exactly_once_needs_these_rights_and_no_more(
    spark: Any, guarded: Guarded, topic_name: Names, tmp_path: Path
) -> None:
    """What the documentation lists; each is missed in turn, by name."""
    source, target = guarded.create(topic_name("in"), '{"n": 7}'), guarded.create(topic_name("out"))
    prefix = topic_name("p")
    script = (
        table(guarded.broker.bootstrap, source, login("carol"), "s")
        + table(
            guarded.broker.bootstrap,
            target,
            login("carol"),
            sink_delivery__guarantee="exactly-once",
            sink_transactional__id__prefix=prefix,
        )
        + "INSERT INTO t SELECT n FROM s"
    )
    guarded.allow("carol", "READ", "TOPIC", source)
    guarded.allow("carol", "WRITE", "TOPIC", target)
    told = refusal(spark, script, tmp_path)
    assert f"does not let the table's user READ topic '{target}'" in told.message

    guarded.allow("carol", "READ", "TOPIC", target)
    told = refusal(spark, script, tmp_path)
    assert told.code == "RUN-007"
    assert f"refuses the transactional id '{prefix}-0' to the table's user" in told.message
    assert f"--transactional-id '{prefix}'" in (told.hint or "")
    assert 1 <= guarded.denials(f"{prefix}-0") <= MOST_DENIALS

    # The user may see the id, which is all that can be asked: the first write tells the rest.
    guarded.allow("carol", "DESCRIBE", "TRANSACTIONAL_ID", prefix, prefixed=True)
    guarded.allow("carol", "READ", "GROUP", prefix, prefixed=True)
    told = refusal(spark, script, tmp_path)
    assert told.code == "RUN-007"
    assert "refused the transactional ids of the table to its user" in told.message
    assert told.message.startswith("table 't': writing to topic")
    assert guarded.denials(f"{prefix}-0") <= 2 * MOST_DENIALS

    guarded.allow("carol", "WRITE", "TRANSACTIONAL_ID", prefix, prefixed=True)
    guarded.forbid("carol", "READ", "GROUP", prefix, prefixed=True)
    told = refusal(spark, script, tmp_path)
    assert told.code == "RUN-007"
    assert f"refuses group '{prefix}-0@" in told.message

    guarded.allow("carol", "READ", "GROUP", prefix, prefixed=True)
    run(spark, script, tmp_path)
    assert guarded.read(target, 1) == ['{"n":7}']


def test_a_topic_for_dead_letters(spark: Any, guarded: Guarded, topic_name: Names) -> None:
    topic, letters = guarded.create(topic_name(), "{"), guarded.create(topic_name("letters"))
    guarded.allow("bob", "READ", "TOPIC", topic)
    guarded.allow("bob", "DESCRIBE", "TOPIC", letters)
    more = {"scan.bad-records": "dead-letter", "scan.dead-letter.topic": letters}
    script = table(guarded.broker.bootstrap, topic, login("bob") | more) + READ
    told = refusal(spark, script)
    assert told.code == "RUN-007"
    assert f"does not let the table's user WRITE topic '{letters}'" in told.message
    guarded.allow("bob", "WRITE", "TOPIC", letters)
    assert run(spark, script) == []
    assert guarded.read(letters, 1) == ["{"]


def test_letters_of_a_job_that_writes_exactly_once(
    spark: Any, guarded: Guarded, topic_name: Names, tmp_path: Path
) -> None:
    """Dead letters and late rows are written as the job's table is; each right is missed in turn, by name."""
    # A row a batch, so that the second is late.
    records = ('{"n": 200000}', '{"n": 1}', "{")
    source, target = guarded.create(topic_name("in"), *records), guarded.create(topic_name("out"))
    letters, late = guarded.create(topic_name("letters")), guarded.create(topic_name("late"))
    prefix, user, at = topic_name("p"), "erin", guarded.broker.bootstrap
    dead = {"scan.bad-records": "dead-letter", "scan.dead-letter.topic": letters}
    timed = "(n INT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts)"
    once = {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": prefix,
    }
    late_rows = (
        f"SET 'table.exec.late-rows' = 'dead-letter'; SET 'table.exec.late-rows.topic' = '{late}';"
    )

    def script(settings: str, options: dict[str, str]) -> str:
        return f"""
        {settings} SET 'tidemill.batch.max-rows' = '1'; SET 'parallelism.default' = '1';
        {table(at, source, login(user) | options, "s").replace("(n INT)", timed)}
        {table(at, target, login(user) | once)}
        INSERT INTO t SELECT CAST(COUNT(*) AS INT)
        FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"""

    ways = {"s-dead-letters-0": script("", dead), "late-rows": script(late_rows, {})}

    def refused(way: str, what: str, hint: str) -> None:
        told = refusal(spark, ways[way], tmp_path)
        assert told.code == "RUN-007"
        assert re.search(what, told.message), told.message
        assert hint in (told.hint or "")

    guarded.allow(user, "READ", "TOPIC", source)
    for operation in ("READ", "WRITE"):
        guarded.allow(user, operation, "TOPIC", target)
    guarded.allow(user, "WRITE", "TRANSACTIONAL_ID", prefix, prefixed=True)
    guarded.allow(user, "READ", "GROUP", prefix, prefixed=True)
    for way, topic in zip(ways, (letters, late), strict=True):
        guarded.allow(user, "DESCRIBE", "TOPIC", topic)
        for operation in ("WRITE", "READ"):
            lacked = f"does not let the table's user {operation} topic '{topic}'"
            refused(way, lacked, f"--operation {operation} --topic '{topic}'")
            guarded.allow(user, operation, "TOPIC", topic)
        lacked = f"refuses the transactional id 'tidemill-\\w+-{way}-0' to the table's user"
        refused(way, lacked, "--resource-pattern-type prefixed --transactional-id 'tidemill-'")
    guarded.allow(user, "WRITE", "TRANSACTIONAL_ID", "tidemill-", prefixed=True)
    for way in ways:
        lacked = f"refuses group 'tidemill-\\w+-{way}-0@\\w+' to the table's user"
        refused(way, lacked, "--resource-pattern-type prefixed --group 'tidemill-'")
    guarded.allow(user, "READ", "GROUP", "tidemill-", prefixed=True)
    run(spark, script(late_rows, dead), tmp_path)
    assert guarded.read(letters, 1) == ["{"]
    assert "00:00:00.001" in guarded.read(late, 1)[0]


# --- while a job runs ----------------------------------------------------------------------------


@pytest.mark.parametrize(("topic", "right"), [("in", "READ"), ("out", "WRITE")])
def test_a_right_that_is_taken_away_while_a_job_runs(
    spark: Any, guarded: Guarded, topic_name: Names, tmp_path: Path, topic: str, right: str
) -> None:
    names = {hint: guarded.create(topic_name(hint)) for hint in ("in", "out")}
    user = "bob"
    guarded.allow(user, "READ", "TOPIC", names["in"])
    guarded.allow(user, "WRITE", "TOPIC", names["out"])
    script = (
        table(guarded.broker.bootstrap, names["in"], login(user), "s")
        + table(guarded.broker.bootstrap, names["out"], login(user))
        + "INSERT INTO t SELECT n FROM s"
    )
    with Session(spark, checkpoint=tmp_path) as session:
        (job,) = [j for j in session.execute(script) if not isinstance(j, str)]
        guarded.write(names["in"], '{"n": 1}')
        assert guarded.read(names["out"], 1) == ['{"n":1}']
        guarded.forbid(user, right, "TOPIC", names[topic])
        started = time.monotonic()
        # More than one, so that a client that has fetched ahead asks again.
        while job.is_active and time.monotonic() - started < 15:
            guarded.write(names["in"], '{"n": 2}')
            time.sleep(0.3)
        assert not job.is_active
        failure = job.failure()
    assert failure is not None
    (told,) = failure.diagnostics
    assert told.code == "RUN-007"
    assert f"refused topic '{names[topic]}' to the table's user" in told.message
    assert f"table '{'s' if topic == 'in' else 't'}'" in told.message
    assert not job.recovery.is_waiting


def test_a_group_that_is_taken_away_while_a_job_runs_is_told_and_the_job_goes_on(
    spark: Any, guarded: Guarded, topic_name: Names, tmp_path: Path
) -> None:
    """Nothing depends on what is committed to it but those who watch it; Flink goes on as well."""
    source, target, group = (
        guarded.create(topic_name("in")),
        guarded.create(topic_name("out")),
        topic_name("g"),
    )
    guarded.allow("bob", "READ", "TOPIC", source)
    guarded.allow("bob", "WRITE", "TOPIC", target)
    guarded.allow("bob", "READ", "GROUP", group)
    script = (
        table(guarded.broker.bootstrap, source, login("bob"), "s", properties_group_id=group)
        + table(guarded.broker.bootstrap, target, login("bob"))
        + "INSERT INTO t SELECT n FROM s"
    )
    with Session(spark, checkpoint=tmp_path) as session:
        (job,) = [j for j in session.execute(script) if not isinstance(j, str)]
        guarded.write(source, '{"n": 1}')
        assert guarded.read(target, 1) == ['{"n":1}']
        guarded.forbid("bob", "READ", "GROUP", group)
        told: list[str] = []
        started = time.monotonic()
        while not any(group in t for t in told) and time.monotonic() - started < 15:
            guarded.write(source, '{"n": 2}')
            time.sleep(0.3)
            told += job.notices()
        assert any(f"refused group '{group}'" in t for t in told)
        assert job.is_active
        assert len(guarded.read(target, 2)) == 2


# Each job's refusal, and how many tasks have failed for it.
_JOBS = """
import json, sys
from tidemill import Session

given = json.loads(sys.stdin.read())
with Session(master="local[3,4]", checkpoint=given["checkpoint"], conf=given["conf"]) as session:
    jobs = session.execute(given["script"])
    for job in jobs:
        job.wait(120)
    tracker = session.spark.sparkContext.statusTracker()
    for job in jobs:
        ids = tracker.getJobIdsForGroup(str(job.query.runId))
        stages = {stage for id in ids for stage in tracker.getJobInfo(id).stageIds}
        failed = sum(tracker.getStageInfo(stage).numFailedTasks for stage in stages)
        print(json.dumps([job.failure().diagnostics[0].message, failed]))
"""


def test_a_spark_that_tries_tasks_again_does_not_try_what_was_refused(
    guarded: Guarded, topic_name: Names, tmp_path: Path
) -> None:
    """As a cluster does, which tries a task four times: to write with an id that one may only see, and to read and
    to write what one might until now."""
    user, at, prefix = "carol", guarded.broker.bootstrap, topic_name("p")
    once = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": prefix}
    topics, script = {}, ""
    for name in ("seen", "read", "written"):
        topics[name] = source, target = (
            guarded.create(topic_name(f"{name}-in"), '{"n": 1}'),
            guarded.create(topic_name(f"{name}-out")),
        )
        for operation in ("READ", "WRITE", "DESCRIBE"):
            guarded.allow(user, operation, "TOPIC", source)
            guarded.allow(user, operation, "TOPIC", target)
        script += table(at, source, login(user), f"{name}_in")
        script += table(at, target, login(user) | (once if name == "seen" else {}), f"{name}_out")
        script += f"INSERT INTO {name}_out SELECT n FROM {name}_in;\n"
    guarded.allow(user, "DESCRIBE", "TRANSACTIONAL_ID", prefix, prefixed=True)
    guarded.allow(user, "READ", "GROUP", prefix, prefixed=True)
    given = {
        "script": script,
        "checkpoint": str(tmp_path / "checkpoint"),
        "conf": {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": SHORT_LIVED},
    }
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", _JOBS],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        deadline = time.monotonic() + 120
        for name in ("read", "written"):
            while not guarded.read(topics[name][1], 1):
                assert process.poll() is None and time.monotonic() < deadline, err.read_text()
        guarded.forbid(user, "READ", "TOPIC", topics["read"][0])
        guarded.forbid(user, "WRITE", "TOPIC", topics["written"][1])
        while process.poll() is None and time.monotonic() < deadline:
            for name in ("read", "written"):
                guarded.write(topics[name][0], '{"n": 2}')
            time.sleep(0.3)
        assert process.wait(30) == 0, err.read_text()
    finally:
        process.kill()
        process.wait()
    (seen, *tries), (read, *reads), (written, *writes) = map(
        json.loads, out.read_text().splitlines()
    )
    assert "refused the transactional ids of the table to its user" in seen
    assert f"refused topic '{topics['read'][0]}' to the table's user" in read
    assert f"refused topic '{topics['written'][1]}' to the table's user" in written
    assert (tries, reads, writes) == ([1], [1], [1])
    assert 1 <= guarded.denials(f"{prefix}-0") <= MOST_DENIALS
    assert 1 <= guarded.denials(topics["read"][0]) <= MOST_DENIALS
    assert 1 <= guarded.denials(topics["written"][1]) <= MOST_DENIALS


# --- who gets in ---------------------------------------------------------------------------------


def test_a_user_of_an_instance_as_oceanus_has_them(
    spark: Any, guarded: Guarded, topic_name: Names
) -> None:
    user = next(name for name in USERS if "#" in name)
    topic = guarded.create(topic_name())
    guarded.allow(user, "WRITE", "TOPIC", topic)
    guarded.allow(user, "READ", "TOPIC", topic)
    script = table(guarded.broker.bootstrap, topic, login(user, mechanism="SCRAM-SHA-256"))
    run(spark, script + WRITE)
    assert run(spark, script + READ) == ['{"n":1}']
