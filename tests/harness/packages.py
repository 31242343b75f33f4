"""Packages of other people, as pip would install them: the example of docs/formats/plugins.md, and broken ones."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "plugins.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def install(place: Path, package: str, points: str, **modules: str) -> None:
    for name, text in modules.items():
        (place / f"{name}.py").write_text(text)
    info = place / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tidemill.formats]\n{points}\n")


def install_example(place: Path) -> None:
    [point] = re.findall(r'^pairs = "(.*)"$', example("toml"), re.MULTILINE)
    install(place, "shop-formats", f"pairs = {point}", shop_formats=example("python"))
