"""Small pictures as SVG: bars of ratios, lines, and panels of lines. Standard library only.

In: numbers. Out: the text of an SVG that is readable on a light and on a dark page. Law: the same numbers give the
same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# Colours of their own in the dark; a background is the page's.
_STYLE = """<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.title { font-size: 14px; font-weight: 600; }
.soft { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.one { stroke: #59636e; stroke-width: 1.5; }
.good { fill: #2f81c7; }
.low { fill: #d1782b; }
.spread { stroke: #1f2328; stroke-opacity: .55; stroke-width: 1.5; }
.wanted { stroke: #cf222e; stroke-width: 2; }
.line { stroke: #2f81c7; stroke-width: 2; fill: none; stroke-linejoin: round; }
.line1 { stroke: #d1782b; }
.dot { fill: #2f81c7; }
.dot1 { fill: #d1782b; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .soft { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .one { stroke: #9198a1; }
  .good { fill: #4493d8; }
  .low { fill: #e08f4b; }
  .spread { stroke: #e6edf3; }
  .wanted { stroke: #f85149; }
  .line { stroke: #4493d8; }
  .line1 { stroke: #e08f4b; }
  .dot { fill: #4493d8; }
  .dot1 { fill: #e08f4b; }
}
</style>"""


def _svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}"'
        f' viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, _STYLE, *parts, "</svg>"]) + "\n"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    at = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{named}{at}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{kind}"/>'


# --- bars ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A value with its spread, and the least that it should be."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    wanted: float | None = None


_WIDE, _ROW, _TOP = 470, 22, 58
_LETTER = 7
"""Room that a letter needs, on the average of a name."""
MOST = 8.0
"""A greater ratio is drawn as this one; its number says what it is."""


def bars(title: str, items: Sequence[Bar]) -> str:
    """Horizontal bars from 0, with a line at 1."""
    scale_end = min(MOST, max([2.0, *(max(b.value, b.wanted or 0) for b in items)]) * 1.05)
    height = _TOP + _ROW * len(items) + 30
    names = 16 + _LETTER * max((len(b.name) for b in items), default=0)

    def x(value: float) -> float:
        return names + _WIDE * min(value, scale_end) / scale_end

    bottom = _TOP + _ROW * len(items)
    parts = [_text(0, 16, title, "title")]
    parts += [
        '<rect x="0" y="27" width="10" height="10" rx="2" class="good"/>',
        _text(15, 36, "target met, or none", "soft"),
        '<rect x="140" y="27" width="10" height="10" rx="2" class="low"/>',
        _text(155, 36, "below its target", "soft"),
        _line(262, 26, 262, 38, "wanted"),
        _text(268, 36, "target", "soft"),
        _line(316, 26, 316, 38, "one"),
        _text(322, 36, "Flink", "soft"),
    ]
    if not items:
        return _svg(
            names + _WIDE + 60,
            height,
            title,
            [*parts, _text(0, _TOP + 8, "not measured yet", "soft")],
        )
    for tick in range(int(scale_end) + 1):
        parts.append(_line(x(tick), _TOP - 6, x(tick), bottom, "one" if tick == 1 else "grid"))
        parts.append(_text(x(tick), bottom + 16, str(tick), "soft", "middle"))
    for i, bar in enumerate(items):
        y = _TOP + i * _ROW
        kind = "low" if bar.wanted is not None and bar.value < bar.wanted else "good"
        wide = max(1.0, x(bar.value) - names)
        parts.append(_text(names - 8, y + 12, bar.name, "", "end"))
        parts.append(
            f'<rect x="{names}" y="{y + 2}" width="{_n(wide)}" height="13" rx="3" class="{kind}"/>'
        )
        if bar.low is not None and bar.high is not None and bar.value > 0:
            parts.append(_line(x(bar.low), y + 8.5, x(bar.high), y + 8.5, "spread"))
        if bar.wanted is not None:
            parts.append(_line(x(bar.wanted), y, x(bar.wanted), y + 17, "wanted"))
        end = max(x(bar.value), x(bar.high or 0) if bar.value > 0 else 0, x(bar.wanted or 0))
        parts.append(_text(end + 6, y + 13, f"{bar.value:.2f}"))
    return _svg(names + _WIDE + 60, height, title, parts)


# --- lines ---------------------------------------------------------------------------------------

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """A small picture beside others."""

    title: str
    x: str
    y: str
    points: Sequence[Point]


@dataclass(frozen=True)
class _Frame:
    """Where points are drawn, and how values become places."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log_x: bool
    log_y: bool

    def x(self, value: float) -> float:
        return self.left + self.width * _share(value, self.x_range, self.log_x)

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - _share(value, self.y_range, self.log_y))


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    low, high = ends
    if log:
        value, low, high = math.log10(value), math.log10(low), math.log10(high)
    return 0.5 if high == low else (value - low) / (high - low)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        return [
            10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ]
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9)))
    while (high - low) / step < 3:
        step /= 2
    while (high - low) / step > 6:
        step *= 2
    first = math.floor(low / step)
    return [step * i for i in range(first, math.ceil(high / step - 1e-9) + 1)]


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


_LABEL = 26
"""Room that a label has."""


def _apart(places: Sequence[float], ticks: Sequence[float]) -> list[float]:
    """Those whose labels do not run into each other; the last one is among them."""
    kept: list[float] = []
    free = math.inf
    for place, tick in sorted(zip(places, ticks, strict=True), reverse=True):
        if place <= free:
            kept.append(tick)
            free = place - _LABEL
    return kept[::-1]


def _drawn(
    frame: _Frame,
    series: Mapping[str, Sequence[Point]],
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    stepped: bool,
) -> list[str]:
    bottom = frame.top + frame.height
    parts = []
    for tick in y_ticks:
        parts.append(
            _line(frame.left, frame.y(tick), frame.left + frame.width, frame.y(tick), "grid")
        )
        parts.append(_text(frame.left - 6, frame.y(tick) + 4, _short(tick), "soft", "end"))
    labelled = _apart([frame.x(t) for t in x_ticks], x_ticks)
    parts += [_text(frame.x(t), bottom + 16, _short(t), "soft", "middle") for t in labelled]
    for number, points in enumerate(series.values()):
        places = [(frame.x(x), frame.y(y)) for x, y in points]
        if stepped:
            # A batch has its size until the next one comes.
            ends = [place[0] for place in places[1:]] + [frame.left + frame.width]
            places = [
                p for (x, y), end in zip(places, ends, strict=True) for p in ((x, y), (end, y))
            ]
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
        kind = f"line line{number}" if number else "line"
        parts.append(f'<polyline points="{path}" class="{kind}"/>')
        if not stepped:
            dot = f"dot dot{number}" if number else "dot"
            parts += [
                f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3.5" class="{dot}"/>' for x, y in places
            ]
    return parts


def lines(
    title: str,
    x: str,
    y: str,
    series: Mapping[str, Sequence[Point]],
    log_y: bool = False,
    stepped: bool = False,
) -> str:
    width, height = 660, 300
    parts = [_text(0, 16, title, "title")]
    points = [p for each in series.values() for p in each]
    if not points:
        return _svg(width, 70, title, [*parts, _text(0, 48, "not measured yet", "soft")])
    ys = [value for _, value in points]
    y_ticks = _ticks(min(ys) if log_y else 0, max(ys), log_y)
    end = max(value for value, _ in points)
    frame = _Frame(
        60, 48, width - 80, height - 96, (0, end or 1), (y_ticks[0], y_ticks[-1]), False, log_y
    )
    x_ticks = [t for t in _ticks(0, end or 1, False) if t <= (end or 1)]
    parts.append(_text(0, 36, y, "soft"))
    parts += _drawn(frame, series, x_ticks, y_ticks, stepped)
    parts.append(_text(width - 20, height - 12, x, "soft", "end"))
    return _svg(width, height, title, parts)


_ACROSS, _PANEL_WIDE, _PANEL_HIGH = 3, 220, 180


def panels(title: str, items: Sequence[Panel]) -> str:
    """Small pictures, each from 0 up: what does not grow is flat."""
    rows = -(-len(items) // _ACROSS) or 1
    width, height = _ACROSS * _PANEL_WIDE, 30 + rows * _PANEL_HIGH
    parts = [_text(0, 16, title, "title")]
    if not items:
        return _svg(width, 70, title, [*parts, _text(0, 48, "not measured yet", "soft")])
    for i, panel in enumerate(items):
        left, top = i % _ACROSS * _PANEL_WIDE, 30 + i // _ACROSS * _PANEL_HIGH
        xs, ys = zip(*panel.points, strict=True)
        y_ticks = _ticks(0, max(ys) or 1, False)
        log_x = min(xs) > 0 and max(xs) / min(xs) >= 4
        frame = _Frame(
            left + 44, top + 44, _PANEL_WIDE - 74, _PANEL_HIGH - 92,
            (min(xs), max(xs)), (0, y_ticks[-1]), log_x, False,
        )  # fmt: skip
        parts.append(_text(left, top + 16, panel.title))
        parts.append(_text(left, top + 32, panel.y, "soft"))
        parts += _drawn(frame, {"": panel.points}, sorted(set(xs)), y_ticks, stepped=False)
        parts.append(_text(left + _PANEL_WIDE - 30, top + _PANEL_HIGH - 16, panel.x, "soft", "end"))
    return _svg(width, height, title, parts)
