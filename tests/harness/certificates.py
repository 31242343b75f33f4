"""Certificates and keys for tests of TLS, made by the keytool and the Java of the JDK that is there anyway.

In: a name. Out: a certificate for 127.0.0.1 that is signed by itself, as the files that servers and clients read: PEM,
and stores of Java's. Law: nothing of it outlives the test's directory.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidemill.broker.java import find_java

PASSWORD = "pass word's"

# keytool does not give a private key away; Java does.
_KEY = """
import java.io.File;
import java.security.KeyStore;
import java.util.Base64;
import javax.crypto.*;
import javax.crypto.spec.*;

class Key {
    public static void main(String[] given) throws Exception {
        char[] password = given[1].toCharArray();
        byte[] key = KeyStore.getInstance(new File(given[0]), password).getKey("own", password).getEncoded();
        String way = "PBEWithSHA1AndDESede"; // the one whose name both Java 17 and OpenSSL know
        Cipher cipher = Cipher.getInstance(way);
        cipher.init(Cipher.ENCRYPT_MODE, SecretKeyFactory.getInstance(way).generateSecret(new PBEKeySpec(password)));
        byte[] locked = new EncryptedPrivateKeyInfo(cipher.getParameters(), cipher.doFinal(key)).getEncoded();
        print("PRIVATE KEY", key);
        print("ENCRYPTED PRIVATE KEY", locked);
    }

    static void print(String what, byte[] bytes) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\\n'}).encodeToString(bytes);
        System.out.println("-----BEGIN " + what + "-----\\n" + text + "\\n-----END " + what + "-----");
    }
}
"""


@dataclass(frozen=True)
class Identity:
    """A key and its certificate; the files' names begin with `path`."""

    path: Path

    @property
    def certificate(self) -> Path:
        """PEM, without the key."""
        return self.path.with_suffix(".crt")

    @property
    def pem(self) -> Path:
        """Key and certificate, as Python's servers and clients want them."""
        return self.path.with_suffix(".pem")

    @property
    def locked_pem(self) -> Path:
        """The same with a key that PASSWORD opens."""
        return self.path.with_suffix(".locked.pem")

    def trust_store(self, kind: str) -> Path:
        """A store of Java's (JKS or PKCS12) that holds the certificate, and which PASSWORD opens."""
        store = self.path.with_suffix(f".{kind}")
        given = ["-importcert", "-noprompt", "-alias", "ca", "-file", self.certificate]
        _keytool(*given, "-keystore", store, "-storetype", kind, "-storepass", PASSWORD)
        return store


def make_identity(place: Path, name: str, days: tuple[int, int] = (0, 3650)) -> Identity:
    """`days`: from when and until when it is valid, counted from now."""
    made = Identity(place / name)
    store = made.path.with_suffix(".p12")
    of_store = ("-keystore", store, "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "own")
    subject = ("-dname", f"CN={name}", "-ext", "san=ip:127.0.0.1", "-ext", "bc:c")
    validity = ("-startdate", f"{days[0]:+d}d", "-validity", str(days[1] - days[0]))
    _keytool("-genkeypair", "-keyalg", "EC", *validity, *subject, *of_store)
    certificate = _keytool("-exportcert", "-rfc", *of_store)
    program = place / "Key.java"
    program.write_text(_KEY, encoding="utf-8")
    keys = _output(find_java(), "-XX:TieredStopAtLevel=1", program, store, PASSWORD)
    plain, locked = keys.split("-----BEGIN ENCRYPTED", 1)
    made.certificate.write_text(certificate)
    made.pem.write_text(plain + certificate)
    made.locked_pem.write_text("-----BEGIN ENCRYPTED" + locked + certificate)
    return made


def _keytool(*given: str | Path) -> str:
    return _output(find_java().resolve().with_name("keytool"), "-J-XX:TieredStopAtLevel=1", *given)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
