/**
 * Verifies an event log, as the command `verify` does. For tests and for copies of a log beside the configured one.
 *
 * bun scripts/verify.ts [sqlite://path | postgres://…]   (else EVENT_LOG_URL, else sqlite://./data/events.db)
 */
import { verifyLog } from "../src/cli/verify-log.ts";
import { knownChainsOf } from "../src/config.ts";
import { messageOf } from "../src/core/errors.ts";

const url = process.argv[2] ?? process.env["EVENT_LOG_URL"] ?? "sqlite://./data/events.db";
try {
  process.exitCode = (await verifyLog(url, console.log, { chains: knownChainsOf(process.env) })).wrong === 0 ? 0 : 1;
} catch (error) {
  console.log(`the log cannot be opened or read: ${messageOf(error)}`);
  process.exitCode = 1;
}
