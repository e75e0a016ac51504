/**
 * The first NFT logs of a contract, by archives that are not trusted. In: a contract and a range of final blocks. Out: logs
 * of the first blocks, as the node has them, or the block through which two archives tell of none. One archive's word that
 * there are none counts for nothing: the node then searches for itself, so that no archive hides a contract.
 */
import { type Address, bytesToHex, type Hash } from "../../core/hex.ts";
import { decodeTransfers } from "../../events/columns.ts";
import type { BlockRange } from "../../events/types.ts";
import { ArchiveDisprovedError, type Archives, assertTold } from "../../rpc/archive/archives.ts";
import { ArchiveError, type HistorySource, type TransfersPart } from "../../rpc/archive/port.ts";
import { IDENTIFYING_TOPICS } from "../../rpc/decode/transfers.ts";
import { NARROW_SPAN } from "../../rpc/endpoint/span-controller.ts";
import type { ChainLog, TransferFilter } from "../../rpc/port.ts";
import type { ToldBlock } from "../../rpc/reading/block-logs.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";
import { isHistoryPruned } from "../../rpc/rpc-errors.ts";

/** Told blocks that are read from the node: a contract's first logs may be of events that tell nothing. */
const MAX_BLOCKS = 8;
/** Answers of an archive in one search: 400 MB, or as many million blocks as the archive reads at once. */
const MAX_ANSWERS = 24;
/** Most logs of addresses without code that are read. */
const MAX_LOGS = 20_000;

export interface ToldSearch extends Omit<TransferFilter, "forms"> {
  /** The forms that prove an NFT. Undefined if any log of an NFT's topics counts. */
  readonly forms: TransferFilter["forms"] | undefined;
  readonly signal: AbortSignal;
}

interface ToldParts {
  readonly reader: RpcChainReader;
  readonly archives: Archives;
}

/** `logs`: of the first blocks with some, as the node has them. `none`: two archives tell of none up to this block. */
type FirstTold = { readonly logs: readonly ChainLog[] } | { readonly none: number };

/** Returns the first logs in a range. Undefined if no archive can tell, or only one says that there are none. */
export async function firstTold(parts: ToldParts, search: ToldSearch): Promise<FirstTold | undefined> {
  const { reader, archives } = parts;
  const { signal, toBlock: last } = search;
  // A node whose limit is not known yet shows it in one request.
  const isLong = last - search.fromBlock + 1 > NARROW_SPAN;
  const isUnknown = !archives.isUseful && reader.historyLimits().answered < NARROW_SPAN;
  if (isLong && isUnknown && archives.mayServe(search)) await reader.probeSpan(NARROW_SPAN, last);
  for (;;) {
    const found = await archives.find(search, [], signal);
    if (found === undefined) return undefined;
    const { source, toBlock } = found;
    const range = { ...search, toBlock };
    const logs = await unlessFailed(archives, source, signal, () => logsIn(parts, source, range));
    // Another archive may tell.
    if (logs === "failed") continue;
    if (logs === undefined || logs.length > 0) return logs && { logs };
    const witness = await archives.witness(source, range, [], signal);
    const second = witness && (await unlessFailed(archives, witness, signal, () => logsIn(parts, witness, range)));
    if (second === undefined || second === "failed") return undefined;
    if (second.length === 0) return { none: toBlock };
    archives.rest(source, new ArchiveDisprovedError(source.label, (second[0] as ChainLog).blockNumber, true));
    return { logs: second };
  }
}

/** Runs a read of an archive, which rests if it fails or is wrong. */
async function unlessFailed<T>(
  archives: Archives,
  source: HistorySource,
  signal: AbortSignal,
  read: () => Promise<T>,
): Promise<T | "failed"> {
  try {
    return await read();
  } catch (error) {
    if (signal.aborted || !(error instanceof ArchiveError || error instanceof ArchiveDisprovedError)) throw error;
    archives.rest(source, error);
    return "failed";
  }
}

/**
 * Returns the logs of the first blocks of which an archive tells some, none if it tells of none. Undefined if that takes
 * too many answers. @throws ArchiveError; ArchiveDisprovedError if the node has no such logs
 */
async function logsIn(
  { reader, archives }: ToldParts,
  source: HistorySource,
  { signal, forms, ...range }: ToldSearch,
): Promise<readonly ChainLog[] | undefined> {
  let answers = 0;
  const told = source.transfers({ ...range, forms: forms ?? [] }, signal);
  for await (const part of archives.advancing(source, told, range)) {
    const blocks = forms === undefined ? touchedIn(part) : transferredIn(part);
    if (blocks.length > 0) return confirmed(reader, source, { address: range.address, blocks, signal });
    if (++answers === MAX_ANSWERS && part.toBlock < range.toBlock) return undefined;
  }
  return [];
}

const hashAt = (columns: Uint8Array, at: number): Hash => bytesToHex(columns.subarray(at * 32, at * 32 + 32)) as Hash;

/** The first blocks with a log. */
const touchedIn = ({ touched: { numbers, hashes } }: TransfersPart): ToldBlock[] =>
  [...numbers.subarray(0, MAX_BLOCKS)].map((number, at) => ({
    ...{ number, hash: hashAt(hashes, at), receiptsRoot: undefined },
  }));

/** The first block with a transfer of the wanted forms. */
function transferredIn({ decoded, touched: { numbers, hashes } }: TransfersPart): ToldBlock[] {
  if (decoded.count === 0) return [];
  const number = decodeTransfers(decoded.transfers).blocks[0];
  const at = number === undefined ? -1 : numbers.indexOf(number);
  return number === undefined || at < 0 ? [] : [{ number, hash: hashAt(hashes, at), receiptsRoot: undefined }];
}

/** Returns the node's logs of told blocks; the archive's, where the node has dropped them. @throws ArchiveDisprovedError */
async function confirmed(
  reader: RpcChainReader,
  source: HistorySource,
  {
    address,
    blocks,
    signal,
  }: { readonly address: Address; readonly blocks: readonly ToldBlock[]; signal: AbortSignal },
): Promise<readonly ChainLog[]> {
  const watched = { addresses: [address], topics: IDENTIFYING_TOPICS };
  const { label } = source;
  const logs: ChainLog[] = [];
  for (const block of blocks) {
    const range = { fromBlock: block.number, toBlock: block.number };
    const hasSome = (own: readonly ChainLog[]) => own.length > 0;
    const proven = await assertTold({ reader, label }, block, watched, hasSome);
    const shown = typeof proven === "object" ? proven.logs : undefined;
    const own = shown ?? (await unlessPruned(reader.logs({ ...watched, ...range })));
    if (own !== undefined && own.length === 0) throw new ArchiveDisprovedError(label, block.number, true);
    if (own !== undefined) logs.push(...own);
    else for await (const part of source.logs({ ...watched, ...range }, signal)) logs.push(...part.logs);
  }
  return logs;
}

async function unlessPruned<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (!isHistoryPruned(error)) throw error;
    return undefined;
  }
}

/** The addresses that archives tell of, and the block through which two of them tell of no other one; -1 for none. */
interface ToldAddresses {
  readonly found: ReadonlySet<Address>;
  readonly through: number;
}

/**
 * Asks archives which of some addresses have NFT logs. None of it is checked: a request for an address that has none leads
 * to its identification.
 */
export async function addressesTold(
  archives: Archives,
  { addresses, ...range }: BlockRange & { readonly addresses: readonly Address[] },
  signal: AbortSignal,
): Promise<ToldAddresses> {
  const found = new Set<Address>();
  const first = await archives.find(range, [], signal);
  if (first === undefined) return { found, through: -1 };
  const { source, toBlock } = first;
  const filter = { addresses, topics: IDENTIFYING_TOPICS, fromBlock: range.fromBlock, toBlock, maxLogs: MAX_LOGS };
  const read = (one: HistorySource) =>
    unlessFailed(archives, one, signal, async () => {
      for await (const { logs } of one.logs(filter, signal)) for (const { address } of logs) found.add(address);
    });
  const witness = await archives.witness(source, filter, [], signal);
  const told = await Promise.all([read(source), witness === undefined ? "failed" : read(witness)]);
  return { found, through: told.includes("failed") ? -1 : toBlock };
}
