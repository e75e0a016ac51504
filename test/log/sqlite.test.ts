/** The SQLite engine: the contract suite, and what is its alone. */

import { afterAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { describeLogContract } from "./contract.ts";

const folder = mkdtempSync(join(tmpdir(), "event-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describeLogContract("SQLite", () => openLog(`sqlite://${join(folder, "events.db")}`, systemClock, silentLogger));
