"""Files in the values of properties are put down for their reader alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemill.spark.client_files import packed, shipped
from tidemill.spark.java import java_class

pytestmark = pytest.mark.spark


def test_a_file_is_put_down_once_and_for_its_owner_only(spark: Any, tmp_path: Path) -> None:
    placed = java_class(spark, "io.tidemill.kafka.Shipped").placed
    store = tmp_path / "trust store.jks"
    store.write_bytes(bytes(range(256)) * 100)
    place = Path(placed(packed(str(store))))
    assert place.read_bytes() == store.read_bytes()
    assert place.name.endswith("-trust_store.jks")
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert placed(packed(str(store))) == str(place)
    place.unlink()
    assert Path(placed(packed(str(store)))).read_bytes() == store.read_bytes()


def test_a_file_inside_of_a_value(spark: Any, tmp_path: Path) -> None:
    placed = java_class(spark, "io.tidemill.kafka.Shipped").placed
    keytab = tmp_path / "a$1.keytab"
    keytab.write_bytes(b"\x05\x02")
    line = f'X required keyTab="{keytab}" principal="a";'
    value = placed(shipped({"sasl.jaas.config": line})["sasl.jaas.config"])
    before, path, after = value.split('"', 2)
    assert (before, after) == ("X required keyTab=", ' principal="a";')
    assert Path(path).read_bytes() == b"\x05\x02"
    assert placed("as it is") == "as it is"
