/**
 * Measures the memory of a hot collection, in a process of its own. In: the kind of its tokens and their number. Out:
 * bytes by purpose, and the growth of the process, as JSON.
 */
import { TransferKind } from "../../../src/events/columns.ts";
import { filledLog } from "../filled-log.ts";

export interface MemoryResult {
  readonly tokens: number;
  readonly transfers: number;
  readonly historyBytes: number;
  readonly allBytes: number;
  readonly grownBytes: number;
}

const [standard, tokens] = [process.argv[2], Number(process.argv[3])];
const kind = standard === "erc1155" ? TransferKind.erc1155 : TransferKind.erc721;
const filled = await filledLog({ tokens, kind });
Bun.gc(true);
const before = process.memoryUsage().rss;
const { collection } = await filled.hydrate();
Bun.gc(true);
const grownBytes = process.memoryUsage().rss - before;
const { ledger } = collection;
const result: MemoryResult = {
  tokens: ledger.tokens.count,
  transfers: ledger.owners.count + ledger.balances.count,
  historyBytes: standard === "erc1155" ? ledger.balances.bytes : ledger.owners.bytes,
  allBytes: ledger.bytes,
  grownBytes,
};
await filled.close();
filled.remove();
process.stdout.write(JSON.stringify(result));
process.exit(0);
