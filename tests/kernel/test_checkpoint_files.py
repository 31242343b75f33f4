"""The local checkpoint file manager: whole files or none, and the same checkpoints as Spark's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_jobs import Job, finish
from py4j.protocol import Py4JJavaError

pytestmark = pytest.mark.spark


class Files:
    """The manager through py4j, with plain paths and bytes."""

    def __init__(self, spark: Any, root: str, **settings: str) -> None:
        self.jvm = spark._jvm
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            conf.set(key, value)
        kind = self.jvm.io.tidemill.checkpoint.LocalCheckpointFileManager
        self.manager = kind(self.path(root), conf)

    def path(self, name: object) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(str(name))

    def begin(self, name: object, content: bytes, overwrite: bool = False) -> Any:
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(bytearray(content))
        return stream

    def write(self, name: object, content: bytes, overwrite: bool = False) -> None:
        self.begin(name, content, overwrite).close()

    def read(self, name: object) -> bytes:
        stream = self.manager.open(self.path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, name: object) -> list[str]:
        return [status.getPath().getName() for status in self.manager.list(self.path(name))]


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Files:
    return Files(spark, f"file:{tmp_path}")


def test_a_file_appears_when_it_is_whole(files: Files, tmp_path: Path) -> None:
    name = tmp_path / "offsets" / "0"
    stream = files.begin(name, b"half")
    stream.flush()
    assert not name.exists()
    stream.write(bytearray(b" and half"))
    stream.close()
    stream.close()
    assert name.read_bytes() == files.read(name) == b"half and half"
    assert [p.name for p in name.parent.iterdir()] == ["0"]
    assert files.manager.exists(files.path(name))


def test_a_cancelled_file_leaves_nothing(files: Files, tmp_path: Path) -> None:
    stream = files.begin(tmp_path / "f", b"x")
    stream.cancel()
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_on_demand(files: Files, tmp_path: Path) -> None:
    name = tmp_path / "f"
    files.write(name, b"old")
    with pytest.raises(Py4JJavaError, match="org.apache.hadoop.fs.FileAlreadyExistsException"):
        files.write(name, b"new")
    assert name.read_bytes() == b"old"
    # A sum that Hadoop left for the old content would make Spark refuse the new one.
    sum_file = tmp_path / ".f.crc"
    sum_file.write_bytes(b"sum")
    files.write(name, b"new", overwrite=True)
    assert name.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_of_two_writers_one_wins(files: Files, tmp_path: Path) -> None:
    for attempt in range(10):
        name = tmp_path / str(attempt)
        streams = [files.begin(name, text) for text in (b"one", b"two")]
        refused: list[Exception] = []

        def close(stream: Any, refused: list[Exception] = refused) -> None:
            try:
                stream.close()
            except Py4JJavaError as e:
                refused.append(e)

        threads = [threading.Thread(target=close, args=(s,)) for s in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 1
        assert name.read_bytes() in (b"one", b"two")
    assert len(list(tmp_path.iterdir())) == 10


def test_a_directory_is_listed_without_hadoops_sums(files: Files, tmp_path: Path) -> None:
    for name in ("b", "a", ".a.crc"):
        (tmp_path / name).write_bytes(b"123")
    (tmp_path / "c").mkdir()
    assert files.names(tmp_path) == ["a", "b", "c"]
    a, _, c = files.manager.list(files.path(tmp_path))
    assert (a.getLen(), a.isFile(), c.isDirectory()) == (3, True, True)
    assert a.getPath().toString() == f"file:{tmp_path}/a"
    assert files.names(tmp_path / "a") == ["a"]


def test_what_is_missing_is_file_not_found(files: Files, tmp_path: Path) -> None:
    missing = files.path(tmp_path / "nope")
    for ask in (files.manager.open, files.manager.list):
        with pytest.raises(Py4JJavaError, match="java.io.FileNotFoundException"):
            ask(missing)
    assert not files.manager.exists(missing)
    files.manager.delete(missing)


def test_directories_are_made_and_deleted_whole(files: Files, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    files.manager.mkdirs(files.path(deep))
    files.manager.mkdirs(files.path(deep))
    files.write(deep / "f", b"x")
    files.manager.delete(files.path(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_can_be_read_from_anywhere(files: Files, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    files.write(tmp_path / "f", content)
    stream = files.manager.open(files.path(tmp_path / "f"))
    stream.seek(200_003)
    assert stream.read() == content[200_003]
    assert stream.getPos() == 200_004
    stream.seek(5)
    assert stream.read() == 5
    stream.close()


def test_the_checkpoint_directory_is_made_and_qualified(spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "new" / "checkpoint"
    plain = Files(spark, str(root))
    assert plain.manager.isLocal()
    assert plain.manager.createCheckpointDirectory().toString() == f"file:{root}"
    assert root.is_dir()


def test_other_file_systems_are_left_to_spark(spark: Any, tmp_path: Path) -> None:
    mount = {"fs.viewfs.mounttable.test.link./data": f"file:{tmp_path}"}
    other = Files(spark, "viewfs://test/data", **mount)
    other.write("viewfs://test/data/f", b"x")
    assert other.read("viewfs://test/data/f") == b"x"
    assert (tmp_path / "f").read_bytes() == b"x"
    assert not other.manager.isLocal()


MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.mark.parametrize("first", ["own", "default"])
def test_checkpoints_of_both_managers_are_interchangeable(
    spark: Any, jobs: Callable[..., Job], tmp_path: Path, first: str
) -> None:
    own = spark.conf.get(MANAGER)

    def run(manager: str, rows: int) -> list[int]:
        if manager == "own":
            spark.conf.set(MANAGER, own)
        else:
            spark.conf.unset(MANAGER)
        spec = json.dumps({"rowsPerSecond": 1000, "numberOfRows": rows, "maxRowsPerBatch": 10})
        frame = spark.readStream.format("tidemill-datagen").option("spec", spec).load()
        job = finish(jobs(frame.dropDuplicates(["id"]), tmp_path))
        return sorted(row.id for row in job.rows)

    default = spark.conf.get(MANAGER, None)
    second = "default" if first == "own" else "own"
    try:
        assert run(first, 15) == list(range(15))
        assert run(second, 30) == list(range(15, 30))
        assert run(first, 40) == list(range(30, 40))
    finally:
        spark.conf.set(MANAGER, default)
