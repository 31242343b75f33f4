"""What every JVM of a test is started with."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""It lives for seconds, or does another thing every second: what the second compiler makes comes too late, and making
it takes the other core."""
