/** The alerts, by Prometheus' own rule tests: block times, disks and growth as they are. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { debianProgram } from "../support/long/debian.ts";

test("the alerts fire when they should, and at no other time", () => {
  const promtool = debianProgram("prometheus", "usr/bin/promtool");
  const rules = join(import.meta.dir, "../deploy/alerts.test.yml");
  const { exitCode, stdout, stderr } = Bun.spawnSync([promtool, "test", "rules", rules]);
  expect([exitCode, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining("SUCCESS")]);
});
