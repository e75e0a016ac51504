/** The log of the routing bench: many collections, each with the metadata of its first tokens in an S3 store. */
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { S3Place } from "../../../src/core/s3-place.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { metadataStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { storeText } from "../../../src/nft/metadata/outcome-documents.ts";
import { fillMany } from "../fill.ts";
import { numberedAddress } from "../service.ts";

/** Tokens of a page, all with metadata. */
export const TOKENS_SHOWN = 10;
const TOKENS = 2_000;
const MOVES = 1;
/** Collections whose documents are written at once. */
const AT_ONCE = 8;

/** Fills a new log. Resolves with the tokens and the transfers of each collection. */
export async function fillRouted(
  logUrl: string,
  blobs: S3Place,
  collections: number,
): Promise<{ readonly tokens: number; readonly transfers: number }> {
  const log = await openLog(logUrl, systemClock, silentLogger, { blobs });
  await fillMany(log, collections, { chainId: 1, kind: TransferKind.erc721, tokens: TOKENS, moves: MOVES });
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < collections; index = next++) await fillMetadata(log, index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  await log.close();
  return { tokens: TOKENS, transfers: TOKENS * (1 + MOVES) };
}

async function fillMetadata(log: EventLog, index: number): Promise<void> {
  const address = numberedAddress(index);
  const stored = await Promise.all(
    Array.from({ length: 3 * TOKENS_SHOWN }, async (_, id) => {
      const text = JSON.stringify({ name: `Token ${id} of ${index}`, description: "x".repeat(400), attributes: [] });
      const { hash } = await storeText(log, { uri: `https://content.example/${index}/${id}`, text }, []);
      return { kind: TransferKind.erc721, id: BigInt(id), hash };
    }),
  );
  const event = {
    type: "MetadataResolved",
    since: 0,
    count: stored.length,
    bytes: 0,
    tokens: encodeTokens(stored),
  } as const;
  const stream = metadataStream(1, address);
  const { version } = await log.head(stream);
  await log.append({ stream, expectedVersion: version, events: [event] });
}
