"""A real MIT Kerberos server on a random loopback port, in a directory of its own.

In: a directory. Out: a KDC whose principals and keytabs a test makes as it likes. Law: nothing of the machine's own
Kerberos is read or written; the server ends with the test. Debian's packages are installed where they are missing and
this process is root's; where that is not possible, `install` says why.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

REALM = "EMR-4K3VR5FD"
"""That of Oceanus' manual, whose parameters can be taken as they are printed."""
PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user")
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

# Debian keeps servers where an ordinary user's PATH does not look.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def install() -> str | None:
    """Make sure that a KDC can be started; else the reason why not."""
    # Processes of one run install at the same time.
    with open(Path(tempfile.gettempdir()) / f"tidemill-kdc-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _missing():
            return None
        if os.getuid() != 0:
            return f"{_missing()[0]} is not installed and this is not root, who could install {' '.join(PACKAGES)}"
        if shutil.which("apt-get") is None:
            return f"{_missing()[0]} is not installed and there is no apt-get to install it"
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
            done = subprocess.run(
                ["apt-get", "-q", *command],
                env=environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode != 0:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                return f"apt-get {command[0]} failed: {last[0] if last else 'no reason given'}"
        return f"{_missing()[0]} is missing from Debian's packages" if _missing() else None


def _missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]


@dataclass(frozen=True)
class Kdc:
    place: Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def conf(self) -> Path:
        """The krb5.conf of its clients."""
        return self.place / "krb5.conf"

    def keytab(self, *names: str, renew: bool = False) -> Path:
        """A keytab of these principals (`alice`, `kafka/localhost`), which are made if they are new.

        renew: with new keys, so that keytabs of before are of no use.
        """
        path = self.place / f"{'+'.join(names).replace('/', '_')}.keytab"
        path.unlink(missing_ok=True)
        for name in names:
            known = self._admin(f"list_principals {name}@{REALM}")
            if f"{name}@{REALM}" not in known.splitlines():
                self._admin(f"add_principal -randkey {name}@{REALM}")
            self._admin(f"ktadd -k {path} {'' if renew else '-norandkey '}{name}@{REALM}")
        assert path.is_file(), "kadmin.local wrote no keytab"
        return path

    def environment(self) -> dict[str, str]:
        """What makes Kerberos' programs look here and nowhere else."""
        own = {
            "KRB5_CONFIG": str(self.conf),
            "KRB5_KDC_PROFILE": str(self.place / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.place / 'tickets'}",
        }
        return {**os.environ, "PATH": _PATH, **own}

    def _admin(self, query: str) -> str:
        return self.run("kadmin.local", "-r", REALM, "-q", query)

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env=self.environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def running(place: Path) -> Iterator[Kdc]:
    """A KDC that listens; `install` has to have been called."""
    kdc = Kdc(place, _free_port())
    kdc.conf.write_text(
        f"[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n  dns_lookup_realm = false\n"
        "  dns_canonicalize_hostname = false\n  rdns = false\n  udp_preference_limit = 1\n"
        f"[realms]\n  {REALM} = {{\n    kdc = {kdc.address}\n  }}\n"
        f"[domain_realm]\n  localhost = {REALM}\n"
    )
    (place / "kdc.conf").write_text(
        f"[kdcdefaults]\n  kdc_listen = {kdc.address}\n  kdc_tcp_listen = {kdc.address}\n"
        f"[realms]\n  {REALM} = {{\n"
        f"    database_name = {place}/principal\n    key_stash_file = {place}/stash\n    acl_file = {place}/acl\n"
        "    max_life = 10h\n    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal\n"
        "  }\n"
        f"[logging]\n  kdc = FILE:{place}/kdc.log\n  admin_server = FILE:{place}/admin.log\n"
    )
    kdc.run("kdb5_util", "create", "-r", REALM, "-s", "-P", "the master key of a test")
    with (place / "kdc.out").open("wb") as out:
        process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM],
            env=kdc.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 20
        while not _listens(kdc.port):
            said = (place / "kdc.out").read_text(errors="replace")
            assert process.poll() is None and time.monotonic() < end, (
                f"the KDC did not start: {said}"
            )
            time.sleep(0.05)
        yield kdc
    finally:
        process.terminate()
        process.wait(20)


def required(possible: Kdc | str) -> Kdc:
    """The test is skipped for the reason why there is none; CI's fails."""
    if isinstance(possible, Kdc):
        return possible
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI has to try Kerberos: {possible}")
    pytest.skip(possible)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
