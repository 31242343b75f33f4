"""No secret of a job is anywhere that somebody else could look: one run with a dozen of them, and then a search of all
that it has said, shown and left behind.

Two jobs run in one process, with Spark's pages and its event log on: one goes on, over TLS, with stores of its own, a
schema registry, a database and letters for late rows; the other has its stores by name, and fails at a record that it
cannot read.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.kafka import produce
from harness.processes import watched
from harness.registry import running
from harness.search import holders
from tidemill.broker import Broker, Security, start, topics
from tidemill.broker.java import keytool

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMAND = Path(sys.executable).with_name("tidemill")

SECRETS = {
    "password in a JAAS line": "1-plain-in-script",
    "password by file": "2-scram;by=file$",
    "trust store, by environment": "3-truststore-by-env",
    "key store": "4-keystore-in-script",
    "key": "5-key-in-script",
    "registry": "6-registry-in-script",
    "registry, in a map": "7-registry-in-map",
    "database, by environment": "8-database-by-env",
    "address of the database": "9-database-in-url",
    "property of nobody's": "10-oauth-client-secret",
    "key of another name": "11-keystore-key-pem",
    "by variable": "12-given-with-var-by-file",
    "setting of Spark's": "12b-spark-setting-by-env",
    "trust store, by name": "12c-truststore-by-name",
    "key store, by name": "12d-keystore-by-name",
}
# What is wrong in this script stands right beside a secret.
WRONG = {
    "13-unquoted": "'properties.ssl.key.password' = 'it''s'13-unquoted')",
    "14-several-lines": "'properties.sasl.jaas.config' = 'x required\n password=\"\n14-several-lines ${NOBODY}\";')",
    "15-unknown-option": "'nonsense' = 'x', 'properties.ssl.key.password' = '15-unknown-option')",
    "16-url": "'format' = 'nonsense', 'registry' = 'http://u:16-url@127.0.0.1:1')",
    "17-late": "'format' = 'json', 'properties.x' = '${env:NOBODY}', 'properties.ssl.key.password' = '17-late')",
}


@dataclass
class Run:
    """What a run has said, shown and left behind, by where it was found."""

    place: Path
    seen: dict[str, bytes] = field(default_factory=dict)

    def text(self, where: str) -> str:
        return self.seen[where].decode(errors="replace")

    def holders(self, secret: str) -> list[str]:
        return holders(self.seen, secret)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    users = {
        "reader": SECRETS["password in a JAAS line"],
        "writer": SECRETS["password by file"],
    }
    asked = Security(tls=True, mechanisms=("PLAIN", "SCRAM-SHA-256"), users=users)
    started = start(tmp_path_factory.mktemp("broker"), port=0, security=asked)
    yield started
    started.stop()


def stores(broker: Broker, place: Path) -> dict[str, Path]:
    """The broker's trust store and the reader's key store, with passwords of their own; and again, for a name."""
    assert broker.secured is not None
    home = broker.secured.home
    passwords = {
        "OLD": (home / "stores.password").read_text(),
        "TRUST": SECRETS["trust store, by environment"],
        "STORE": SECRETS["key store"],
        "KEY": SECRETS["key"],
        "NAMED_TRUST": SECRETS["trust store, by name"],
        "NAMED_STORE": SECRETS["key store, by name"],
    }

    def changed(name: str, store: Path, password: str) -> Path:
        made = place / f"{name}{store.suffix}"
        shutil.copy(store, made)
        old, new = ("-storepass:env", "OLD"), ("-new:env", password)
        keytool("-storepasswd", "-keystore", made, *old, *new, secrets=passwords)
        return made

    key = changed("key", home / "users" / "reader.jks", "STORE")
    of_key = ("-keystore", key, "-storepass:env", "STORE")
    listed = keytool("-list", *of_key, secrets=passwords)
    [alias] = re.findall(r"^(\S+),.*PrivateKeyEntry", listed, re.MULTILINE)
    new = ("-keypass:env", "OLD", "-new:env", "KEY")
    keytool("-keypasswd", "-alias", alias, *of_key, *new, secrets=passwords)
    return {
        "trust": changed("trust", home / "truststore.jks", "TRUST"),
        "key": key,
        "named_trust": changed("named-trust", home / "truststore.jks", "NAMED_TRUST"),
        "named_key": changed("named-key", home / "users" / "writer.p12", "NAMED_STORE"),
    }


CREDENTIALS = """
[my_ssl]
type = "kafka_ssl"
trust_store = "{named_trust}"
trust_store_password = "${{env:NAMED_TRUST_PASSWORD}}"
key_store = "{named_key}"
key_store_password = "{named_password}"
key_password = "{named_password}"

[my_krb]
type = "kerberos"
principal = "writer@EXAMPLE.COM"
keytab = "writer.keytab"
"""
SCRIPT = """
CREATE TABLE clicks (id BIGINT, ts TIMESTAMP(3), proc AS PROCTIME(), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'scan.bad-records' = 'dead-letter', 'scan.dead-letter.topic' = 'letters',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required
     username="reader"
     password="{plain}";',
  'properties.ssl.truststore.location' = '{trust}', 'properties.ssl.truststore.password' = '${{env:TRUST_PASSWORD}}',
  'properties.ssl.keystore.location' = '{key}', 'properties.ssl.keystore.password' = '{store_password}',
  'properties.ssl.key.password' = '{key_password}',
  'properties.sasl.oauthbearer.client.credentials.client.secret' = '{oauth}',
  'properties.registry.ssl.keystore.key' = '{pem}'
);
CREATE TABLE users (id INT, name STRING) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:derby:memory:users;create=true;password={in_url}',
  'table-name' = '(VALUES (1, ''ann''), (2, ''bob'')) AS t(id, name)',
  'username' = 'me', 'password' = '${{env:DATABASE_PASSWORD}}'
);
CREATE TABLE counts (id BIGINT, name STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'counts', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'avro-confluent', 'key.avro-confluent.url' = '{registry}',
  'key.avro-confluent.properties' = 'basic.auth.user.info:''me:{in_map}'',basic.auth.credentials.source:USER_INFO',
  'value.format' = 'avro-confluent', 'value.avro-confluent.url' = '{other_registry}',
  'value.avro-confluent.basic-auth.credentials-source' = 'USER_INFO',
  'value.avro-confluent.basic-auth.user-info' = 'me:{user_info}',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'SCRAM-SHA-256',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.scram.ScramLoginModule required
     username="writer" password="${{file:writer.password}}";',
  'properties.ssl.truststore.location' = '{trust}', 'properties.ssl.truststore.password' = '${{env:TRUST_PASSWORD}}'
);
CREATE TABLE numbers (n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required
     username="writer" password="${{file:writer.password}}";',
  'ssl_auth_name' = 'my_ssl', 'properties.my.secret' = '${{SECRET_BY_VAR}}'
);
CREATE TABLE tickets (n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'GSSAPI',
  'ssl_auth_name' = 'my_ssl', 'krb_auth_name' = 'my_krb'
);
CREATE TABLE seen (n BIGINT) WITH ('connector' = 'print');
SET 'table.exec.late-rows' = 'dead-letter';
SET 'table.exec.late-rows.topic' = 'letters';
SET 'my.password' = '${{SECRET_BY_VAR}}';
SET;
SHOW TABLES;
SHOW CREATE TABLE clicks;
SHOW CREATE TABLE users;
SHOW CREATE TABLE counts;
SHOW CREATE TABLE numbers;
SHOW CREATE TABLE tickets;
DESCRIBE clicks;
EXPLAIN SELECT * FROM clicks;
EXPLAIN SELECT * FROM tickets;
EXPLAIN CHANGELOG_MODE, JSON_EXECUTION_PLAN INSERT INTO counts
  SELECT c.id, u.name, COUNT(*) FROM clicks AS c JOIN users FOR SYSTEM_TIME AS OF c.proc AS u ON c.id = u.id
  GROUP BY c.id, u.name;
INSERT INTO counts
  SELECT c.id, MAX(u.name), MAX(c.n) FROM (
    SELECT id, proc, COUNT(*) OVER (PARTITION BY id ORDER BY ts) AS n FROM clicks) AS c
  JOIN users FOR SYSTEM_TIME AS OF c.proc AS u ON c.id = u.id
  GROUP BY c.id;
INSERT INTO seen SELECT n FROM numbers;
"""


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    place = tmp_path_factory.mktemp("run")
    made = stores(broker, place)
    admin = broker.admin
    for topic in ("clicks", "counts", "numbers", "letters"):
        topics.create(admin["bootstrap.servers"], topic, 1, client=admin)
    write(broker, "clicks", '{"id": 1, "ts": "2024-01-01 00:00:00"}', "{no json")
    write(broker, "numbers", '{"n": "many"}')
    with (
        running(user_info=f"me:{SECRETS['registry']}") as value,
        running(user_info=f"me:{SECRETS['registry, in a map']}") as key,
    ):
        script = SCRIPT.format(
            bootstrap=f"127.0.0.1:{broker.port}",
            plain=SECRETS["password in a JAAS line"],
            store_password=SECRETS["key store"],
            key_password=SECRETS["key"],
            oauth=SECRETS["property of nobody's"],
            pem=SECRETS["key of another name"],
            in_url=SECRETS["address of the database"],
            in_map=SECRETS["registry, in a map"],
            user_info=SECRETS["registry"],
            registry=key.url,
            other_registry=value.url,
            **made,
        )
        (place / "job.sql").write_text(script)
        named = CREDENTIALS.format(named_password=SECRETS["key store, by name"], **made)
        (place / "credentials.toml").write_text(named)
        (place / "credentials.toml").chmod(0o600)
        (place / "writer.keytab").write_bytes(b"\x05\x02")
        (place / "writer.password").write_text(SECRETS["password by file"] + "\n")
        (place / "events").mkdir()
        yield Run(place, observed(broker, place))
    assert value.subjects and key.subjects, "the registries were not asked"


def write(broker: Broker, topic: str, *values: str) -> None:
    produce(broker.admin["bootstrap.servers"], topic, *values, via=broker.admin)


def environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TIDEMILL_HOME": str(place / "home"),
        "TIDEMILL_LOG": str(place / "spark.log"),
        "TRUST_PASSWORD": SECRETS["trust store, by environment"],
        "NAMED_TRUST_PASSWORD": SECRETS["trust store, by name"],
        "DATABASE_PASSWORD": SECRETS["database, by environment"],
        "STORAGE_KEY": SECRETS["setting of Spark's"],
    }


def observed(broker: Broker, place: Path) -> dict[str, bytes]:
    """Run the script, look at everything while it runs, stop it, and look at what it leaves."""
    port = free_port()
    variables = place / "variable"
    variables.write_text(SECRETS["by variable"])
    arguments = [
        "run", "job.sql", "--checkpoint", "checkpoint", "--credentials", "credentials.toml",
        "--var", f"SECRET_BY_VAR=${{file:{variables}}}",
        "--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}",
        "--conf", "spark.sql.streaming.ui.enabled=true",
        "--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false",
        "--conf", f"spark.eventLog.dir={(place / 'events').as_uri()}",
        "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", "spark.hadoop.fs.my.storage.setting=${env:STORAGE_KEY}",
    ]  # fmt: skip
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        process = subprocess.Popen(
            [COMMAND, *arguments],
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            cwd=place,
            start_new_session=True,
            env=environment(place),
        )
    try:
        with watched(process.pid) as lines:
            until(
                lambda: "failed: job/seen" in text(place / "err") or said_ready(place),
                process,
                place,
            )
            until(lambda: bool(counted(broker)), process, place)
            # Another batch, so that Spark has more than the first to show; its row is late.
            write(
                broker,
                "clicks",
                '{"id": 2, "ts": "2024-01-02 00:00:00"}',
                '{"id": 2, "ts": "2023-01-01 00:00:00"}',
            )
            until(lambda: len(counted(broker)) > 1, process, place)
            until(lambda: "RUN-010" in text(place / "err"), process, place)
            pages = crawled(f"http://127.0.0.1:{port}")
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return pages | {f"ps: {line}": line.encode() for line in lines} | left_behind(place)


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def said_ready(place: Path) -> bool:
    return "\nready\n" in text(place / "err")


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], place: Path) -> None:
    end = time.monotonic() + 120
    while not condition():
        shown = text(place / "err")
        assert process.poll() is None, f"ended with {process.poll()}: {shown}"
        assert time.monotonic() < end, shown
        time.sleep(0.3)


def counted(broker: Broker) -> list[bytes | None]:
    admin = broker.admin
    return [r.key for r in topics.read(admin["bootstrap.servers"], "counts", client=admin)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


_LINK = re.compile(r"""(?:href|src)=["']([^"'#]+)""")
_MOST_PAGES = 400


def crawled(root: str) -> dict[str, bytes]:
    """All of Spark's pages, and what its REST interface says, by their addresses."""
    pages: dict[str, bytes] = {}
    application = json.loads(fetched(f"{root}/api/v1/applications"))[0]["id"]
    base = f"{root}/api/v1/applications/{application}"
    asked = [
        *(
            f"{root}/{page}/"
            for page in ("jobs", "stages", "storage", "environment", "executors", "SQL")
        ),
        f"{root}/StreamingQuery/",
        f"{root}/executors/threadDump/?executorId=driver",
        *(
            f"{base}/{what}"
            for what in ("jobs", "stages?details=true&withSummaries=true", "executors")
        ),
        *(
            f"{base}/{what}"
            for what in ("allexecutors", "environment", "storage/rdd", "streaming/statistics")
        ),
        f"{base}/sql?details=true&planDescription=true&length=1000",
    ]
    while asked:
        address = asked.pop(0)
        # The same rows in another order are no other page.
        if address in pages or any(word in address for word in ("/kill", "/static/", ".sort=")):
            continue
        assert len(pages) < _MOST_PAGES, f"it goes on with {address}"
        pages[address] = fetched(address)
        for link in _LINK.findall(pages[address].decode(errors="replace")):
            found = urllib.parse.urljoin(address, html.unescape(link)).replace(" ", "%20")
            if found.startswith(root):
                asked.append(found)
    return pages


def fetched(address: str) -> bytes:
    """A page that tells of an error is one, too."""
    try:
        answer = urllib.request.urlopen(address, timeout=30)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        body: bytes = answer.read()
    return body


# The user's own files.
_GIVEN = {
    *("job.sql", "writer.password", "variable", "trust.jks", "key.jks"),
    *("credentials.toml", "writer.keytab", "named-trust.jks", "named-key.p12"),
}


def left_behind(place: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in place.rglob("*"):
        if path.is_file() and path.relative_to(place).parts[0] not in _GIVEN:
            name = str(path.relative_to(place))
            found[name] = path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    for member in archive.namelist():
                        found[f"{name}!{member}"] = archive.read(member)
    return found


def test_the_run_was_what_it_should_be(run: Run) -> None:
    shown = run.text("err")
    assert "RUN-010" in shown and "table 'numbers'" in shown
    assert "Traceback" not in shown
    assert "failed: job/seen" in shown and "stopped: job/counts" in shown
    # The places that are searched are there, and have something of the job in them.
    pages = [where for where in run.seen if where.startswith("http")]
    for page in (
        "/environment/",
        "/SQL/",
        "/jobs/",
        "/stages/",
        "/StreamingQuery/",
        "/sql?details",
    ):
        assert any(page in where for where in pages), page
    plans = [run.text(p) for p in pages if "/SQL/execution/" in p or "planDescription" in p]
    assert any("tidemill-kafka" in plan for plan in plans)
    log = "".join(run.text(where) for where in run.seen if where.startswith("events"))
    assert "SparkListenerSQLExecutionStart" in log and "tidemill-kafka" in log
    assert any(where.startswith("checkpoint/job/counts/state") for where in run.seen)
    lines = [where for where in run.seen if where.startswith("ps: ")]
    assert any("tidemill run job.sql" in line for line in lines)
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in lines)
    assert "spark.log" in run.seen
    for answer in ("'******'", "'${env:TRUST_PASSWORD}'", "changelogMode", "CREATE TABLE"):
        assert answer in run.text("out")
    assert "'ssl_auth_name' = 'my_ssl'" in run.text("out")


def test_the_search_knows_the_forms_of_a_secret() -> None:
    secret = "a&b;\"c'=d/é?"
    forms = [secret, json.dumps(secret), html.escape(secret), urllib.parse.quote(secret, safe="")]
    places = {form: form.encode() for form in forms}
    for user in ("", "u", "me", "you"):
        basic = f"{user}:{secret}:{user}".encode()
        for encoded in (base64.b64encode(basic), base64.urlsafe_b64encode(basic)):
            places[encoded.decode()] = b"Basic " + encoded
    assert holders(places, secret) == [*places]
    assert holders(places, secret + "!") == []


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_nowhere(run: Run, name: str) -> None:
    assert run.holders(SECRETS[name]) == []


def test_the_passwords_of_the_broker_itself_are_nowhere(run: Run, broker: Broker) -> None:
    assert broker.secured is not None
    for file in ("ca.password", "stores.password"):
        assert run.holders((broker.secured.home / file).read_text().strip()) == []


@pytest.mark.parametrize("secret", WRONG)
def test_a_script_with_a_mistake_beside_a_secret(tmp_path: Path, secret: str) -> None:
    script = tmp_path / "wrong.sql"
    beginning = "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't',"
    servers = "'properties.bootstrap.servers' = '127.0.0.1:1',"
    script.write_text(f"{beginning} {servers} {WRONG[secret]};\nSELECT * FROM t;\n")
    said = ""
    for command in (("check",), ("check", "--json"), ("explain",), ("run",)):
        done = subprocess.run(
            [COMMAND, *command, script],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(tmp_path),
            check=False,
        )
        said += done.stdout + done.stderr
        assert "Traceback" not in said
        if command == ("run",):
            assert done.returncode != 0
    assert "error" in said and secret not in said


def test_a_wrong_password_is_refused_within_15_seconds_and_not_repeated(
    broker: Broker, tmp_path: Path
) -> None:
    assert broker.secured is not None
    home = broker.secured.home
    script = tmp_path / "job.sql"
    script.write_text(f"""
CREATE TABLE clicks (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = '127.0.0.1:{broker.port}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required
     username="reader" password="18-wrong";',
  'properties.ssl.truststore.location' = '{home / "truststore.jks"}',
  'properties.ssl.truststore.password' = '${{file:{home / "stores.password"}}}'
);
SELECT * FROM clicks;
""")
    began = time.monotonic()
    done = subprocess.run(
        [COMMAND, "run", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=False,
    )
    spark_start = 12
    assert time.monotonic() - began < 15 + spark_start
    assert done.returncode == 3
    said = done.stdout + done.stderr
    assert said.count("error RUN-007") == 1 and "Traceback" not in said
    assert "table 'clicks'" in said and f"127.0.0.1:{broker.port}" in said and " hint: " in said
    assert "18-wrong" not in said
