/**
 * Keeps the wire contract: records every route and the socket against a fixed chain, and compares with what was kept.
 * Both engines of the log must answer the same. Exits with 1 on any difference.
 *
 * bun scripts/wire.ts compare [--source <checkout>] [--engine sqlite|postgres]
 * bun scripts/wire.ts record  [--source <checkout>]
 */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { differences, ENGINES, KEPT, keptExchanges, recordCheckout } from "./wire/compare.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { source: { type: "string", default: join(import.meta.dir, "..") }, engine: { type: "string" } },
});
const source = resolve(values.source);
const engines = ENGINES.filter((engine) => values.engine === undefined || engine === values.engine);
const command = positionals[0];
if (command === "record") {
  const recorded = await recordCheckout("sqlite", source);
  await Bun.write(KEPT, recorded.map((exchange) => `${JSON.stringify(exchange)}\n`).join(""));
  process.stdout.write(`${recorded.length} exchanges recorded\n`);
} else if (command === "compare" && engines.length > 0) {
  const kept = await keptExchanges();
  let count = 0;
  for (const engine of engines) {
    const found = differences(kept, await recordCheckout(engine, source));
    process.stdout.write(`${found.join("")}${engine}: ${kept.length} exchanges, ${found.length} differ\n`);
    count += found.length;
  }
  process.exit(count === 0 ? 0 : 1);
} else {
  process.stderr.write("usage: bun scripts/wire.ts compare|record [--source <checkout>] [--engine sqlite|postgres]\n");
  process.exit(2);
}
