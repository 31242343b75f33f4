"""Build the kernel jar. In: kernel/src/main, pyspark's own jars, kernel/clients.lock.
Out: src/tidemill/jars/tidemill-kernel.jar and, beside it, the Kafka client it was compiled against.

    python tools/kernel.py build [--force]

Law: equal inputs give the equal jar, byte for byte, and a jar whose inputs have not changed is left
alone. There is no Maven or Gradle here on purpose: `javac` and pip are all that a user must have.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tidemill.broker.jars import fetch, find_javac  # noqa: E402
from tidemill.errors import TidemillError, job_error  # noqa: E402

JAVA = ROOT / "kernel" / "src" / "main" / "java"
RESOURCES = ROOT / "kernel" / "src" / "main" / "resources"
LOCK = ROOT / "kernel" / "clients.lock"
JARS = ROOT / "src" / "tidemill" / "jars"
JAR = JARS / "tidemill-kernel.jar"
PROPERTIES = "tidemill-kernel.properties"
RELEASE = "17"


def build(force: bool = False) -> bool:
    """Bring the jars up to date; whether anything had to be compiled."""
    properties = _properties()
    clients = _place_clients()
    if not force and _properties_of(JAR) == properties:
        return False
    with tempfile.TemporaryDirectory() as staging:
        classes = Path(staging)
        _compile(classes, clients)
        _write_jar(classes, properties)
    return True


def _properties() -> str:
    """What the jar says of itself; `inputs` is the sum of all that its bytes depend on."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    spark = importlib.metadata.version("pyspark")
    inputs = hashlib.sha256(f"{version} {spark} {RELEASE}".encode())
    for path in [*_files(JAVA), *_files(RESOURCES), LOCK, Path(__file__)]:
        inputs.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"version={version}\nspark={spark}\ninputs={inputs.hexdigest()}\n"


def _properties_of(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as content:
            return content.read(PROPERTIES).decode()
    except (FileNotFoundError, zipfile.BadZipFile, KeyError):
        return None


def _place_clients() -> list[Path]:
    """The locked client jars in the package, and no older ones."""
    JARS.mkdir(parents=True, exist_ok=True)
    placed = []
    for source in fetch(LOCK, note=lambda text: print(text, file=sys.stderr)):
        target = JARS / source.name
        if not target.exists() or target.stat().st_size != source.stat().st_size:
            with tempfile.NamedTemporaryFile(dir=JARS, delete=False) as copy:
                shutil.copyfile(source, copy.name)
            os.chmod(copy.name, 0o644)
            os.replace(copy.name, target)
        placed.append(target)
    for old in set(JARS.glob("kafka-clients-*.jar")) - set(placed):
        old.unlink()
    return placed


def _compile(classes: Path, clients: list[Path]) -> None:
    javac = find_javac()
    classpath = os.pathsep.join([str(_spark_jars() / "*"), *map(str, clients)])
    arguments = classes / "arguments"
    sources = "\n".join(f'"{path.as_posix()}"' for path in _files(JAVA))
    arguments.write_text(sources, encoding="utf-8")
    command = [javac, "--release", RELEASE, "-encoding", "UTF-8", "-g", "-nowarn", "-proc:none"]
    command += ["-Xlint:all,-serial,-processing,-path,-classfile,-try", "-cp", classpath]
    command += ["-d", classes, f"@{arguments}"]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    arguments.unlink()
    if run.returncode != 0:
        message = f"the kernel does not compile:\n{run.stderr.strip()}"
        raise job_error("SETUP-011", message)
    if run.stderr.strip():
        print(run.stderr.strip(), file=sys.stderr)


def _write_jar(classes: Path, properties: str) -> None:
    entries = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"}
    entries[PROPERTIES] = properties.encode()
    for base in (classes, RESOURCES):
        entries |= {path.relative_to(base).as_posix(): path.read_bytes() for path in _files(base)}
    with (
        tempfile.NamedTemporaryFile(dir=JARS, delete=False) as file,
        zipfile.ZipFile(file, "w") as jar,
    ):
        for name, content in entries.items():
            # A fixed date, or two builds of one source would differ.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            jar.writestr(entry, content, zipfile.ZIP_DEFLATED)
    os.chmod(file.name, 0o644)
    os.replace(file.name, JAR)


def _files(base: Path) -> list[Path]:
    return sorted(path for path in base.rglob("*") if path.is_file())


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if Path(place, "jars").is_dir():
            return Path(place, "jars")
    message = "the kernel is compiled against pyspark's jars, and there is no pyspark here"
    raise job_error("SETUP-008", message, "install it with: pip install 'pyspark>=4.3,<4.4'")


def main(arguments: list[str]) -> int:
    if arguments not in (["build"], ["build", "--force"]):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    try:
        built = build(force="--force" in arguments)
    except TidemillError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    print(f"{JAR.relative_to(ROOT)}: {'built' if built else 'up to date'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
