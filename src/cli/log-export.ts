/** An export that reads the log itself, while no service runs or beside one. */
import { PublishedChain } from "../chain/view.ts";
import { parseChain } from "../chains/chains.ts";
import { HotCollections } from "../collections/hot-collections.ts";
import type { Config } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { parseAddress } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import { type FileFacts, piecesOf } from "../exports/export.ts";
import type { ExportFormat } from "../exports/formats.ts";
import { MetadataBooks } from "../metadata/books.ts";
import { FactsReader } from "../metadata/page.ts";
import { Parser } from "../metadata/resolve/parser.ts";
import { TokenTexts } from "../metadata/texts.ts";
import { startWalk } from "../walks/walk.ts";
import { CommandError, type Contract, openCommandLog, USAGE } from "./access.ts";

export interface ExportWish {
  readonly format: ExportFormat;
  readonly holders: boolean;
  /** By default the newest final block, or the newest shown one if no final one has the collection. */
  readonly asOfBlock: number | undefined;
}

/** A file that is made while it is read. */
export interface OpenExport {
  readonly facts: FileFacts;
  readonly pieces: AsyncIterable<Uint8Array>;
  close(): Promise<void>;
}

/** Part of `CACHE_MB` for metadata, as in the service. */
const METADATA_PART = 0.25;

/** @throws CommandError without a log; Refusal if the block can't be exported */
export async function openLogExport(
  config: Config,
  { chain: name, address: text }: Contract,
  { format, holders, asOfBlock }: ExportWish,
): Promise<OpenExport> {
  const [chain, address] = [parseChain(name), parseAddress(text)];
  if (chain === undefined || address === undefined) throw new CommandError(`${name} ${text}: no contract`, USAGE);
  const [logger, clock] = [silentLogger, systemClock];
  const log = await openCommandLog(config);
  const maxBytes = config.cacheBytes * METADATA_PART;
  const projections = new HotCollections({ log, logger, maxBytes: config.cacheBytes });
  const books = new MetadataBooks({ log, logger, maxBytes });
  const parser = new Parser({ clock });
  const close = async () => {
    books.close();
    parser.close();
    await projections.close();
    await log.close();
  };
  try {
    const { chainId } = chain;
    const view = new PublishedChain(log, chainId, () => projections.settle(chainId));
    await view.load();
    const source = { projections, chain: view, chainId, address };
    const { walk, hash, finalized } = await startWalk(source, { asOfBlock, prefersFinal: true, byPair: holders });
    const header = view.header(walk.block);
    const time = header === undefined ? undefined : new Date(header.timestamp * 1_000).toISOString();
    const facts = {
      ...{ chain: chain.name, address, block: String(walk.block), block_hash: hash || header?.hash, block_time: time },
      finality: finalized ? "finalized" : "latest",
    };
    const texts = new TokenTexts(log, parser, maxBytes);
    const reader = new FactsReader({ books, texts, log, clock, maxBytes, publicUrl: () => "" });
    const known = { normalizeMetadata: false, mediaItems: false, asOf: clock.now() };
    const pieces = piecesOf(
      source,
      { walk, hash, finalized },
      {
        ...{ format, holders, facts },
        factsOf: async (entries) => (await reader.read({ chainId, address }, entries, known)).facts,
      },
    );
    return { facts, pieces, close };
  } catch (error) {
    await close();
    throw error;
  }
}
