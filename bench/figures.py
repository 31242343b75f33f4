"""What was measured: medians and ratios, the files that hold them, and the tables and pictures of docs/performance.md.

In: turns of the engines. Out: a list of objects in results/*.json, one a workload, and Markdown. Law: a ratio is the
median of the rounds' ratios to that setting of Flink's which was faster; a result that is not equal to Flink's counts
as zero, whatever its rate; nothing in a page is made up by hand.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import plots

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
"""Beside Flink: a list of objects, one a workload."""
FIGURES = HERE / "figures"
"""All else that is measured."""
NEXMARK = "nexmark/"
MEAN_WANTED = 1.5
"""The least geometric mean of Nexmark's ratios."""
SHOWN = ("decode", "exactly_once", "group_by", "pv_uv", "upsert_sum", "top_10", "join", "tumble")
"""Workloads that the README names."""

Figure = Mapping[str, Any]


# --- statistics ----------------------------------------------------------------------------------


def rating(
    ours: Sequence[float], rivals: Mapping[str, Sequence[float]]
) -> tuple[float, float, float, str]:
    """The median, least and greatest of the rounds' ratios, and the setting of the rival that they are to."""
    best = max(rivals, key=lambda name: statistics.median(rivals[name]))
    ratios = [mine / other for mine, other in zip(ours, rivals[best], strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios), best


def geometric_mean(ratios: Iterable[float]) -> float:
    found = list(ratios)
    if not found or min(found) <= 0:
        return 0.0
    return math.exp(statistics.fmean(map(math.log, found)))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least value that so large a share of an ordered sequence does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# --- the machine ---------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Where and with what something was measured."""
    import pyspark

    from tidemill import __version__
    from tidemill.broker import find_java
    from tidemill.broker.server import KAFKA_VERSION

    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', said.stderr)
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(errors="replace"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / (1 << 30), 1),
        "cpu": cpu[1].strip() if cpu else platform.processor() or platform.machine(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {
            "tidemill": __version__,
            "spark": pyspark.__version__,
            "kafka": KAFKA_VERSION,
            "java": java[1] if java else "",
            "python": platform.python_version(),
        },
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- files ---------------------------------------------------------------------------------------


def load(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def store(path: Path, found: Sequence[Figure], order: Sequence[str], key: str = "workload") -> None:
    """Put objects in the place of those with their names; `order` is that of the file."""
    places = {name: i for i, name in enumerate(order)}
    merged = {f[key]: f for f in load(path)} | {f[key]: f for f in found}
    kept = sorted((f for f in merged.values() if f[key] in places), key=lambda f: places[f[key]])
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)


# --- text ----------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what stands in a column whose name ends with a colon is a number."""
    marks = ["---:" if name.endswith(":") else "---" for name in head]
    lines = [[name.rstrip(":") for name in head], marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def ratio_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def line_of(result: Figure) -> str:
    """A result for a terminal."""
    name = f"{result['workload']:18}"
    if result.get("error"):
        return f"{name} FAILED: {result['error']}"
    if result["ratio"] is None:
        compared = f"{number(result['compared_rows'])} rows compared"
        return f"{name} {compared}: {result['difference'] if not result['equal'] else 'equal'}"
    wanted = result.get("wanted")
    parts = [
        f"{name} {number(result['ours_rows_per_s']):>10} rows/s",
        f"Flink {number(result['flink_rows_per_s']):>10} ({result['flink_setting']})",
        f"ratio {ratio_text(result['measured_ratio'])}"
        f" ({ratio_text(result['ratio_low'])} … {ratio_text(result['ratio_high'])})"
        + (f", wanted {wanted}" if wanted is not None else ""),
        f"CPU {result['ours_cpu_seconds']:.1f} s / {result['flink_cpu_seconds']:.1f} s",
        f"memory {number(result['ours_peak_mb'])} MB / {number(result['flink_peak_mb'])} MB",
        f"out {number(result['ours_output'])} / {number(result['flink_output'])}",
        "equal" if result["equal"] else f"NOT EQUAL: {result['difference']}",
    ]
    return " | ".join(parts)


def require(problems: Sequence[str]) -> None:
    """End with what was missed, if anything was."""
    if problems:
        raise SystemExit("\n".join(f"missed: {what}" for what in problems))


def missed(results: Sequence[Figure]) -> list[str]:
    """What is not as it should be, a sentence each."""
    found = []
    for result in results:
        name, wanted = result["workload"], result.get("wanted")
        if result.get("error"):
            found.append(f"{name}: {result['error']}")
        elif not result["equal"]:
            found.append(f"{name}: the results are not equal: {result['difference']}")
        elif result["ratio"] is None:
            continue
        elif wanted is not None and result["ratio"] < wanted:
            found.append(f"{name} is {result['ratio']:.2f} × Flink, wanted {wanted}")
        ours, flink = (result.get(f"{who}_peak_mb") or 0 for who in ("ours", "flink"))
        if ours > flink:
            found.append(f"{name}: {ours:,} MB at most, Flink {flink:,} MB")
    nexmark = [
        r["ratio"] for r in results if r["workload"].startswith(NEXMARK) and r["ratio"] is not None
    ]
    if len(nexmark) > 1 and geometric_mean(nexmark) < MEAN_WANTED:
        found.append(
            f"the geometric mean of Nexmark is {geometric_mean(nexmark):.2f} × Flink, wanted"
            f" {MEAN_WANTED}"
        )
    return found


# --- pages ---------------------------------------------------------------------------------------

NOTHING = "Not measured yet on this version: `make {verb}` does, and writes this.\n"


def _results() -> list[dict[str, Any]]:
    return load(RESULTS / "bench.json")


def _is_nexmark(result: Figure) -> bool:
    return str(result["workload"]).startswith(NEXMARK)


def where(found: Sequence[Figure]) -> str:
    """Machine, versions and days in a sentence."""
    if not found:
        return ""
    m = found[-1]["machine"]
    days = sorted({str(f["measured"])[:10] for f in found})
    versions = ", ".join(f"{k.capitalize()} {v}" for k, v in m["versions"].items() if v)
    return (
        f"{days[0]}{f' to {days[-1]}' if len(days) > 1 else ''}: {m['cores']} cores ({m['cpu']}),"
        f" {m['memory_gb']} GB, {m['system']}; {versions}.\n"
    )


def beside_flink(results: Sequence[Figure]) -> str:
    """The table of workloads, without Nexmark."""
    found = [r for r in results if not _is_nexmark(r)]
    return _table(found) + "\n" + where(found) if found else NOTHING.format(verb="bench")


def nexmark(results: Sequence[Figure]) -> str:
    found = [r for r in results if _is_nexmark(r)]
    if not found:
        return NOTHING.format(verb="bench ONLY=nexmark/")
    ratios = [r["ratio"] or 0.0 for r in found]
    mean = geometric_mean(ratios)
    least = min(found, key=lambda r: r["ratio"] or 0.0)
    sentence = (
        f"Geometric mean of {len(found)} queries: **{mean:.2f}** (wanted {MEAN_WANTED}); the least is"
        f" {least['ratio'] or 0.0:.2f}, `{_name(least)}` (wanted 0.7).\n"
    )
    return _table(found) + "\n" + sentence + "\n" + where(found)


def headline(results: Sequence[Figure]) -> str:
    """A few workloads and the mean of Nexmark, for who has not read on yet."""
    by_name = {r["workload"]: r for r in results}
    found = [by_name[name] for name in SHOWN if name in by_name]
    if not found:
        return NOTHING.format(verb="bench")
    rows = [[*_rates(r)[:3], ratio_text(r["ratio"])] for r in found]
    ratios = [r["ratio"] or 0.0 for r in results if _is_nexmark(r)]
    if ratios:
        name = f"Nexmark, geometric mean of {len(ratios)} queries"
        rows.append([name, "", "", ratio_text(geometric_mean(ratios))])
    head = ("rows per second of two cores", "Flink:", "Tidemill:", "ratio:")
    return markdown(head, rows)


def _table(found: Sequence[Figure]) -> str:
    rates = markdown(
        ("workload", "Flink, rows/s:", "Tidemill, rows/s:", "ratio:", "spread", "wanted:", "equal"),
        map(_rates, found),
    )
    costs = markdown(
        (
            "",
            "rows:",
            "CPU s per 1M rows: Flink:",
            "Tidemill:",
            "peak MB: Flink:",
            "Tidemill:",
            "rows compared:",
            "records out: Flink:",
            "Tidemill:",
        ),
        (_costs(r) for r in found if not r.get("error")),
    )
    return rates + "\nWhat they used, and what came out of the runs that were compared:\n\n" + costs


def _rates(r: Figure) -> list[str]:
    name = f"`{_name(r)}`: {_sentence(r['what'])}"
    if r.get("error"):
        return [name, *["–"] * 5, f"failed: {_cell(r['error'])}"]
    wanted = r.get("wanted")
    setting = "" if r["flink_setting"] == "plain" else " (mini-batches)"
    is_missed = wanted is not None and r["ratio"] < wanted
    ratio = ratio_text(r["ratio"])
    return [
        name,
        number(r["flink_rows_per_s"]) + setting,
        number(r["ours_rows_per_s"]),
        f"**{ratio}** (missed)" if is_missed else ratio,
        f"{ratio_text(r['ratio_low'])} … {ratio_text(r['ratio_high'])}",
        "" if wanted is None else f"{wanted:g}",
        "yes" if r["equal"] else f"**no**: {_cell(r['difference'])}",
    ]


def _costs(r: Figure) -> list[str]:
    million = r["rows"] / 1e6
    ours = number(r["ours_peak_mb"])
    return [
        f"`{_name(r)}`",
        number(r["rows"]),
        f"{r['flink_cpu_seconds'] / million:.1f}",
        f"{r['ours_cpu_seconds'] / million:.1f}",
        number(r["flink_peak_mb"]),
        f"**{ours}**" if r["ours_peak_mb"] > r["flink_peak_mb"] else ours,
        number(r["compared_rows"]),
        number(r["flink_output"]),
        number(r["ours_output"]),
    ]


def _name(r: Figure) -> str:
    return str(r["workload"]).removeprefix(NEXMARK)


def _sentence(text: str) -> str:
    text = _cell(text.removesuffix(".").removesuffix(", into nothing"))
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def ratios_plot(results: Sequence[Figure]) -> str:
    """Bars of ratios; what Flink does is 1."""
    bars = [
        plots.Bar(
            _name(r),
            r["ratio"] or 0.0,
            r.get("ratio_low"),
            r.get("ratio_high"),
            r.get("wanted"),
        )
        for r in results
        if not r.get("error")
    ]
    return plots.bars("Rows per second, as a ratio to Flink’s better setting", bars)


# --- latency -------------------------------------------------------------------------------------


def latency(found: Sequence[Figure]) -> str:
    runs = [f for f in found if "p50_ms" in f]
    if not runs:
        return NOTHING.format(verb="bench-latency")
    head = (
        "engine",
        "guarantee",
        "asked",
        "rows/s:",
        "p50 ms:",
        "p99 ms:",
        "max ms:",
        "wanted",
        "",
        "",
    )
    return markdown(head, map(_latency_cells, runs)) + "\n" + where(runs)


def _latency_cells(f: Figure) -> list[str]:
    wanted = f.get("wanted")
    told = "" if not wanted else f"p50 ≤ {wanted[0]} ms, p99 ≤ {wanted[1]} ms"
    met = not wanted or (f["p50_ms"] <= wanted[0] and f["p99_ms"] <= wanted[1])
    return [
        f["engine"] + (f", checkpoints every {f['checkpoints']}" if f.get("checkpoints") else ""),
        f["guarantee"],
        f["load"],
        number(f["rows_per_s"]),
        number(f["p50_ms"]),
        number(f["p99_ms"]),
        number(f["max_ms"]),
        told,
        "" if not wanted else "met" if met else "**missed**",
        ""
        if f["arrived"] >= f["sent"]
        else f"{f['sent'] - f['arrived']:,} rows never came in time",
    ]


def batches_plot(found: Sequence[Figure]) -> str:
    """Batches of a job that is idle, falls behind, and is idle again."""
    run: Figure = next((f for f in found if "batches" in f), {"batches": [], "backlog": 0})
    behind = f"{run['backlog']:,} rows behind" if run["backlog"] else "behind"
    return plots.lines(
        f"Batches of a job that is idle, then {behind}, then idle again",
        "seconds",
        "rows of a batch",
        {"": [(b["at"], max(1, b["rows"])) for b in run["batches"]]},
        log_y=True,
        stepped=True,
    )


# --- growth --------------------------------------------------------------------------------------


def growth(found: Sequence[Figure]) -> str:
    axes = [f for f in found if "points" in f]
    if not axes:
        return NOTHING.format(verb="bench-growth")
    rows = []
    for axis in axes:
        values = ", ".join(f"{number(p['x'])}: {_short(p['y'])}" for p in axis["points"])
        met = axis["factor"] <= axis["limit"]
        rows.append(
            [
                f"`{axis['axis']}`: {axis['what']}",
                f"{axis['unit']}; {values}",
                f"{axis['factor']:.2f}",
                f"{axis['limit']:g}",
                "met" if met else "**missed**",
            ]
        )
    head = ("as this grows", "measured", "factor:", "at most:", "")
    text = markdown(head, rows)
    costs = [f for f in found if "value" in f]
    if costs:
        text += "\n" + markdown(
            ("cost", "measured:"),
            ([f["what"], f"{_short(f['value'])} {f['unit']}"] for f in costs),
        )
    return text + "\n" + where(found)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def growth_plot(found: Sequence[Figure]) -> str:
    panels = [
        plots.Panel(
            axis["axis"], axis["x"], axis["unit"], [(p["x"], p["y"]) for p in axis["points"]]
        )
        for axis in found
        if "points" in axis
    ]
    return plots.panels("Cost as something grows", panels)


# --- what tools/docs.py fills in -----------------------------------------------------------------

BLOCKS: dict[str, Callable[[], str]] = {
    "bench": lambda: beside_flink(_results()),
    "bench-headline": lambda: headline(_results()),
    "bench-nexmark": lambda: nexmark(_results()),
    "bench-latency": lambda: latency(load(FIGURES / "latency.json")),
    "bench-growth": lambda: growth(load(FIGURES / "growth.json")),
}
PICTURES: dict[str, Callable[[], str]] = {
    "images/beside-flink.svg": lambda: ratios_plot(_results()),
    "images/batches.svg": lambda: batches_plot(load(FIGURES / "latency.json")),
    "images/growth.svg": lambda: growth_plot(load(FIGURES / "growth.json")),
}
"""By their paths below docs/."""
