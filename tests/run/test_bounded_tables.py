"""Files and tables of databases: read to their end, looked up by a stream, and files as a sink."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import Collected, World

from harness.waiting import settle
from tidemill import Session
from tidemill.errors import JobError
from tidemill.spark.progress import Progress

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def files(path: Path, format_: str = "json", **options: str) -> str:
    """The WITH clause of a table over a directory."""
    given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    every = {"connector": "filesystem", "path": str(path), "format": format_, **given}
    return "WITH (" + ", ".join(f"'{k}' = '{v}'" for k, v in every.items()) + ")"


def written(path: Path) -> dict[str, list[str]]:
    """Directory below `path` → the lines of its files, sorted; names of files that are not rows' have none."""
    found: dict[str, list[str]] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            name = file.parent.relative_to(path).as_posix()
            lines = file.read_text().splitlines() if file.name.startswith("part-") else [file.name]
            found[name] = sorted(found.get(name, []) + lines)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "files"
    directory.mkdir()
    return directory


# --- reading -------------------------------------------------------------------------------------


def test_every_line_below_a_directory_is_a_row(world: World, place: Path) -> None:
    (place / "deep").mkdir()
    (place / "a.json").write_text('{"id": 1, "name": "ann"}\n\n{"id": 2, "name": "bob"}')
    (place / "deep" / "b.json").write_bytes(b'{"id": 3, "name": "cid"}\r\n')
    with gzip.open(place / "c.json.gz", "wt") as packed:
        packed.write('{"id": 4, "name": "dan"}\n')
    (place / "_SUCCESS").write_text("not a row")
    (place / ".part.inprogress").write_text("not a row either")
    world.run(
        f"CREATE TABLE users (id INT, name STRING) {files(place)}; SELECT name, id FROM users;"
    )
    assert sorted(row["name"] for _, row in world.rows) == ["ann", "bob", "cid", "dan"]
    assert {kind for kind, _ in world.rows} == {"+I"}


def test_csv_is_read_with_the_options_of_its_format(world: World, place: Path) -> None:
    (place / "a.csv").write_text('1;"a;b"\n2;\n')
    world.run(
        f"CREATE TABLE t (id INT, name STRING) {files(place, 'csv', csv_field__delimiter=';')};"
        " SELECT * FROM t;"
    )
    assert sorted((r["id"], r["name"]) for _, r in world.rows) == [(1, "a;b"), (2, "")]


def test_partition_columns_and_metadata_come_from_the_path(world: World, place: Path) -> None:
    for day in ("2024-01-01", "__DEFAULT_PARTITION__"):
        (place / f"day={day}" / "shop=a%3Ab").mkdir(parents=True)
        (place / f"day={day}" / "shop=a%3Ab" / "x.json").write_text('{"n": 1}\n')
    world.run(
        "CREATE TABLE t (n INT, `day` DATE, shop STRING, f STRING METADATA FROM 'file.name', s BIGINT METADATA FROM"
        f" 'file.size') PARTITIONED BY (`day`, shop) {files(place)}; SELECT shop, `day`, n, f, s FROM t;"
    )
    found = sorted((tuple(r.values()) for _, r in world.rows), key=repr)
    assert found == [("a:b", "2024-01-01", 1, "x.json", 9), ("a:b", None, 1, "x.json", 9)]


def test_only_files_that_match_a_pattern_are_read(world: World, place: Path) -> None:
    for name in ("a.json", "b.json", "c.txt"):
        (place / name).write_text(json.dumps({"name": name}))
    pattern = ".*/[ac].*[.]json"
    world.run(
        f"CREATE TABLE t (name STRING) {files(place, source_path_regex__pattern=pattern)}; SELECT * FROM t;"
    )
    assert world.rows == [("+I", {"name": "a.json"})]


def test_a_line_that_cannot_be_read_is_told_by_its_number(world: World, place: Path) -> None:
    (place / "a.json").write_text('{"id": 1}\n{"id": "one"}\n')
    with pytest.raises(JobError) as stopped:
        world.run(f"CREATE TABLE t (id INT) {files(place)}; SELECT * FROM t;")
    [found] = stopped.value.diagnostics
    assert found.code == "RUN-010" and "a.json', line 2, field 'id'" in found.message


def test_a_directory_that_is_not_there_is_named(world: World, place: Path) -> None:
    with pytest.raises(JobError) as stopped:
        world.run(f"CREATE TABLE t (id INT) {files(place / 'nowhere')}; SELECT * FROM t;")
    [found] = stopped.value.diagnostics
    assert found.code == "RUN-015" and "nowhere" in found.message


def test_files_and_a_topic_are_joined(world: World, place: Path) -> None:
    (place / "a.json").write_text('{"id": 1, "name": "ann"}\n{"id": 2, "name": "bob"}\n')
    orders = world.create({"user": 2}, {"user": 3}, hint="orders")
    world.run(
        f"""
        CREATE TABLE users (id INT, name STRING) {files(place)};
        CREATE TABLE orders (`user` INT) {world.kafka(orders)};
        SELECT o.`user`, u.name FROM orders AS o LEFT JOIN users AS u ON o.`user` = u.id;
        """
    )
    left = [row for kind, row in world.rows if kind in ("+I", "+U")]
    gone = [row for kind, row in world.rows if kind in ("-D", "-U")]
    assert sorted(map(repr, (r for r in left if r not in gone))) == [
        repr({"user": 2, "name": "bob"}),
        repr({"user": 3, "name": None}),
    ]


def test_rows_of_files_are_counted_at_each_scan(world: World, place: Path) -> None:
    (place / "a.json").write_text('{"id": 1, "name": "ann"}\n{"id": 2, "name": "bob"}\n')
    world.run(
        f"""
        CREATE TABLE users (id INT, name STRING) {files(place)};
        SELECT a.id, b.name FROM users AS a JOIN users AS b ON a.id = b.id;
        """
    )
    assert len(world.rows) == 2
    progress = Progress()
    progress.add(world.reports)
    assert progress.rows_in == {"users": 4}


def test_windows_over_files_close_at_their_end(world: World, place: Path) -> None:
    (place / "a.json").write_text(
        '{"ts": "2024-01-01 00:00:05"}\n{"ts": "2024-01-01 00:00:59"}\n{"ts": "2024-01-01 00:01:00"}\n'
    )
    world.run(
        f"""
        CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {files(place)};
        SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;
        """
    )
    assert sorted(row["n"] for _, row in world.rows) == [1, 2]


# --- looking up ----------------------------------------------------------------------------------

LOOKUP = """
    CREATE TABLE orders (id INT, `user` INT, proc AS PROCTIME()) {orders};
    CREATE TABLE users (id INT, name STRING, age INT) {users};
    SELECT o.id, u.name FROM orders AS o {kind} JOIN users FOR SYSTEM_TIME AS OF {time} AS u
    ON o.`user` = u.id {more};
"""


@pytest.mark.parametrize(
    ("kind", "time", "more", "expected"),
    [
        ("", "o.proc", "", {(1, "ann"), (1, "another ann"), (2, "bob")}),
        ("", "PROCTIME()", "", {(1, "ann"), (1, "another ann"), (2, "bob")}),
        ("LEFT", "o.proc", "AND u.age > 18", {(1, "ann"), (2, None), (3, None), (4, None)}),
    ],
)
def test_a_row_finds_its_rows(
    world: World, place: Path, kind: str, time: str, more: str, expected: set[Any]
) -> None:
    (place / "a.csv").write_text("1,ann,30\n1,another ann,8\n2,bob,10\n")
    orders = [{"id": i, "user": u} for i, u in ((1, 1), (2, 2), (3, 3), (4, None))]
    names = {"orders": world.kafka(world.create(*orders)), "users": files(place, "csv")}
    world.run(LOOKUP.format(kind=kind, time=time, more=more, **names))
    assert {(row["id"], row["name"]) for _, row in world.rows} == expected


def test_each_batch_meets_the_files_as_they_are(world: World, place: Path) -> None:
    (place / "a.csv").write_text("1,ann,30\n")
    topic = world.create({"id": 1, "user": 1})
    script = LOOKUP.format(
        kind="LEFT", time="o.proc", more="", orders=world.kafka(topic), users=files(place, "csv")
    )
    rows: list[tuple[str, Any]] = world.rows
    with Session(world.spark, checkpoint=world.checkpoint, output=Collected(rows)) as session:
        job = next(j for j in session.execute(script) if not isinstance(j, str))

        settle(job.query)
        (place / "a.csv").write_text("1,anna,31\n")
        (place / "b.csv").write_text("2,bob,10\n")
        world.produce(topic, {"id": 2, "user": 1}, {"id": 3, "user": 2})
        settle(job.query)
        (place / "a.csv").unlink()
        world.produce(topic, {"id": 4, "user": 1})
        settle(job.query)
    assert [(r["id"], r["name"]) for _, r in sorted(rows, key=lambda row: row[1]["id"])] == [
        (1, "ann"),
        (2, "anna"),
        (3, "bob"),
        (4, None),
    ]


def test_a_lookup_needs_no_checkpoint_of_its_table(world: World, place: Path) -> None:
    """A changed stream of orders is looked up as it changes: a lookup remembers nothing."""
    (place / "a.csv").write_text("1,ann,30\n2,bob,10\n")
    topic = world.create(
        {"before": None, "after": {"id": 1, "user": 1}, "op": "c"},
        {"before": {"id": 1, "user": 1}, "after": {"id": 1, "user": 2}, "op": "u"},
    )
    orders = world.kafka(topic, format="debezium-json")
    world.run(
        LOOKUP.format(kind="LEFT", time="o.proc", more="", orders=orders, users=files(place, "csv"))
    )
    assert [kind for kind, _ in world.rows] == ["+I", "-U", "+U"]
    assert world.rows[-1][1] == {"id": 1, "name": "bob"}


# --- databases -----------------------------------------------------------------------------------


@pytest.fixture
def database(world: World, tmp_path: Path) -> Callable[..., str]:
    """A Derby database, which comes with Spark; gives the WITH clause of a table of it."""
    url = f"jdbc:derby:{tmp_path / 'db'}"
    rows = world.spark.createDataFrame(
        [(1, "ann", 30), (2, "bob", 10)], "id INT, name STRING, age INT"
    )
    rows.write.jdbc(f"{url};create=true", "users", properties={"user": "u", "password": "secret"})

    def table(**options: str) -> str:
        given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        every = {
            "connector": "jdbc",
            "url": url,
            "table-name": "users",
            "username": "u",
            "password": "secret",
            **given,
        }
        return "WITH (" + ", ".join(f"'{k}' = '{v}'" for k, v in every.items()) + ")"

    return table


def test_a_table_of_a_database_is_read(world: World, database: Callable[..., str]) -> None:
    parts = {
        "scan_partition_column": "id",
        "scan_partition_num": "2",
        "scan_partition_lower__bound": "0",
        "scan_partition_upper__bound": "10",
    }
    world.run(
        f"CREATE TABLE users (id BIGINT, name STRING) {database(**parts)}; SELECT name, id FROM users;"
    )
    assert sorted((r["name"], r["id"]) for _, r in world.rows) == [("ann", 1), ("bob", 2)]


def test_rows_are_looked_up_in_a_database(world: World, database: Callable[..., str]) -> None:
    orders = world.create({"id": 1, "user": 2}, {"id": 2, "user": 9})
    world.run(
        LOOKUP.format(
            kind="LEFT", time="o.proc", more="", orders=world.kafka(orders), users=database()
        )
    )
    assert {(r["id"], r["name"]) for _, r in world.rows} == {(1, "bob"), (2, None)}


def test_what_a_database_refuses_is_told_without_the_password(
    world: World, database: Callable[..., str]
) -> None:
    for given, words in (
        ({"table__name": "nobody"}, "NOBODY"),
        ({"driver": "no.such.Driver"}, "no.such.Driver"),
    ):
        with pytest.raises(JobError) as stopped:
            world.run(f"CREATE TABLE users (id INT) {database(**given)}; SELECT * FROM users;")
        [found] = stopped.value.diagnostics
        assert found.code == "RUN-016" and words in found.message
        assert "secret" not in found.message
    with pytest.raises(JobError, match="no column 'size'"):
        world.run(f"CREATE TABLE users (size INT) {database()}; SELECT * FROM users;")


# --- writing -------------------------------------------------------------------------------------


def test_rows_are_lines_of_files(world: World, place: Path) -> None:
    topic = world.create({"id": 1, "name": "ann"}, {"id": 2, "name": None})
    world.run(
        f"""
        CREATE TABLE src (id INT, name STRING) {world.kafka(topic)};
        CREATE TABLE dst (id INT, name STRING) {files(place, "csv")};
        INSERT INTO dst SELECT * FROM src;
        """
    )
    assert written(place) == {".": ["1,ann", "2,"]}


def test_partitions_are_directories(world: World, place: Path) -> None:
    rows = [{"id": i, "shop": shop} for i, shop in enumerate(["a:b", "a:b", None, "", "c"])]
    topic = world.create(*rows)
    world.run(
        f"""
        CREATE TABLE src (id INT, shop STRING) {world.kafka(topic)};
        CREATE TABLE dst (id INT, `day` DATE, shop STRING) PARTITIONED BY (`day`, shop)
        {files(place, sink_partition__commit_policy_kind="success-file")};
        INSERT INTO dst SELECT id, DATE '2024-01-01', shop FROM src;
        CREATE TABLE again (id INT, `day` DATE, shop STRING) PARTITIONED BY (`day`, shop) {files(place)};
        """
    )
    assert written(place) == {
        "day=2024-01-01/shop=__DEFAULT_PARTITION__": ["_SUCCESS", '{"id":2}', '{"id":3}'],
        "day=2024-01-01/shop=a%3Ab": ["_SUCCESS", '{"id":0}', '{"id":1}'],
        "day=2024-01-01/shop=c": ["_SUCCESS", '{"id":4}'],
    }


def test_a_batch_that_is_repeated_writes_its_files_again(world: World, place: Path) -> None:
    topic = world.create({"id": 1}, {"id": 2})
    script = f"""
        CREATE TABLE src (id INT) {world.kafka(topic)};
        CREATE TABLE dst (id INT) {files(place)};
        INSERT INTO dst SELECT * FROM src;
    """
    world.run(script, keep=True)
    names = sorted(file.name for file in place.iterdir() if file.name.startswith("part-"))
    commits = next(world.checkpoint.rglob("commits"))
    shutil.rmtree(commits)
    world.run(script, keep=True)
    assert written(place) == {".": ['{"id":1}', '{"id":2}']}
    assert sorted(file.name for file in place.iterdir() if file.name.startswith("part-")) == names


def test_a_stopped_job_goes_on_in_new_files(world: World, place: Path) -> None:
    topic = world.create({"id": 1})
    script = f"""
        CREATE TABLE src (id INT) {world.kafka(topic)};
        CREATE TABLE dst (id INT) {files(place)};
        INSERT INTO dst SELECT * FROM src;
    """
    world.run(script, keep=True)
    world.produce(topic, {"id": 2})
    world.run(script, keep=True)
    assert written(place) == {".": ['{"id":1}', '{"id":2}']}
