/** A hash of who owns what in a log, read back from it: whether two backfills came to the same. */
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { CollectionProjections } from "../../src/nfts/projections.ts";

/** Columns of the ledger: each token, its owners in order with their blocks, and the addresses. */
export async function listingHash(logUrl: string, address: string): Promise<string> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const projections = new CollectionProjections({ log, logger: silentLogger, maxBytes: 2 ** 34 });
  try {
    const { ledger } = await projections.get(1, address as Address);
    const { tokens, owners, addresses } = ledger;
    const hasher = new Bun.CryptoHasher("sha256");
    for (let slot = 0; slot < tokens.count; slot++) hasher.update(tokens.idText(slot));
    for (let entry = 0; entry < owners.count; entry++) {
      const to = owners.to[entry] as number;
      hasher.update(`${owners.slot[entry]} ${to === 0 ? "" : addresses.hex(to)} ${owners.block[entry]}\n`);
    }
    return hasher.digest("hex");
  } finally {
    projections.close();
    await log.close();
  }
}
