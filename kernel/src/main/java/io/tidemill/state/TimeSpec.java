package io.tidemill.state;

import java.io.Serializable;

/**
 * What an operator is told that watermarks pass through, or that looks at a clock.
 *
 * @param channel its own name, for those who come after
 * @param tasks how many tasks it has
 */
record TimeSpec(String channel, int tasks) implements Serializable {}
