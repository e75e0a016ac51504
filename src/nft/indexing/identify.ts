/**
 * Identifies the kind of an NFT contract by its answers and the shape of its events, never by a list of addresses.
 * In: an address. Out: the `ContractIdentified` event, with the forms in which to read its transfers and the first
 * block that can hold one.
 */
import { Interface } from "ethers/abi";
import { type Address, SYSTEM_ADDRESS, ZERO_ADDRESS } from "../../core/hex.ts";
import { utf8Text } from "../../core/utf8.ts";
import type { BlockRange, BlockRef, ContractIdentified, TransferForm } from "../../events/types.ts";
import type { Archives } from "../../rpc/archive/archives.ts";
import { addressIn, booleanIn, onlyBytes, wordIn } from "../../rpc/calls.ts";
import {
  ASSIGN,
  CAT_ADOPTED,
  CAT_RESCUED,
  CONSECUTIVE_TRANSFER,
  PUNK_BOUGHT,
  PUNK_TRANSFER,
  TRANSFER,
  TRANSFER_821,
  TRANSFER_821_SECOND,
  TRANSFER_6909,
  TRANSFER_BATCH,
  TRANSFER_SINGLE,
} from "../../rpc/decode/transfer-topics.ts";
import { IDENTIFYING_TOPICS } from "../../rpc/decode/transfers.ts";
import type { BlockHeader, CallResult, CallsAtHead, ChainLog, ChainReader, MoreTopics } from "../../rpc/port.ts";
import type { FirstLogs, LogSearch } from "../../rpc/reading/logs.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";
import { isStateUnavailable } from "../../rpc/rpc-errors.ts";
import { firstTold, type ToldSearch } from "./first-told.ts";
import { findLives, firstBlockWhere, firstDelegations, isContract, mayBeDestroyed } from "./lives.ts";

const ABI = new Interface([
  "function supportsInterface(bytes4) view returns (bool)",
  "function name() view returns (string)",
  "function symbol() view returns (string)",
  "function decimals() view returns (uint8)",
  "function ownerOf(uint256) view returns (address)",
  "function punkIndexToAddress(uint256) view returns (address)",
]);
/** Interface ids: ERC-165, the id that no contract may support, ERC-721, ERC-1155, ERC-6909; package `erc821`'s ERC-821. */
const INTERFACES = ["0x01ffc9a7", "0xffffffff", "0x80ac58cd", "0xd9b67a26", "0x0f632fb3", "0x7c0633c6"] as const;
/** The form that each of these interfaces stands for, from ERC-721's id on. */
const CLAIMED_FORMS = ["erc721", "erc1155", "erc6909", "erc821-created"] as const satisfies readonly TransferForm[];
/** Data of the calls by which a contract is identified: its interfaces, then its name, symbol and decimals. */
export const QUESTIONS: readonly string[] = [
  ...INTERFACES.map((id) => ABI.encodeFunctionData("supportsInterface", [id])),
  ...["name", "symbol", "decimals"].map((name) => ABI.encodeFunctionData(name)),
];
/**
 * A contract of any standard may use the events of all of them. Some contracts are two kinds at once, and a proxy may
 * have had a logic that followed a draft.
 */
export const STANDARD_FORMS: readonly TransferForm[] = ["erc721", "erc2309", "erc1155", "erc6909", "erc821"];
/** Ids whose owner is requested before a `Transfer` without indexed id counts as an NFT's. */
const SAMPLES = 12;
/** Blocks after the deployment in which most NFTs have a log; newest blocks that are searched for unusual forms. */
const FIRST_BLOCKS = 7_000;
const NEWEST_BLOCKS = 1_000;
/** Most blocks per answer in the search for a first log. The answer is parsed on the thread that serves requests. */
const MAX_WINDOW = 200_000;
/**
 * Target number of logs per answer, about a megabyte of JSON, and first range of a search that begins in the middle of a
 * contract's life. A node that ignores the number of topics sends all transfers of an ERC-20.
 */
const [SEARCH_LOGS, RESUMED_SPAN] = [2_000, 100] as const;

interface Identification {
  readonly identified: ContractIdentified;
  /** Final blocks at which earlier contracts at the address ended, rising. */
  readonly ends: readonly number[];
  /** True if there is a contract at the head. */
  readonly hasCode: boolean;
  /** A later such block, or the head if it has no contract. The follower records the end once it is final. */
  readonly destroyedAt: number | null;
}

/** How far a contract's history is searched: from `startBlock` up to the final block `searched`, on the way to `target`. */
export interface Searched {
  readonly startBlock: number;
  readonly target: number;
  readonly searched: number;
}

interface IdentifyOptions {
  /** The part of the history that may be searched if the calls do not tell. */
  readonly reach: "first blocks" | "all";
  /** The result of an earlier search. Blocks without a log, and blocks up to `searched`, are not searched again. */
  readonly known?: Pick<Searched, "startBlock"> & { readonly searched: number | null };
  /** Called after each answer of the search. */
  readonly onSearched?: (part: Searched) => Promise<void>;
  /** True if the history costs nothing before the deployment, because an archive tells it. */
  readonly mayBeginEarly?: boolean;
  /** Archives that may tell the first logs, in place of a search by the node. */
  readonly archives?: Archives;
  readonly signal: AbortSignal;
}

/** Share of a history by which it may begin too early. */
const EARLY = 0.05;

/**
 * Identifies a contract by calls, code and logs.
 * @returns undefined if only a search of the whole history can tell
 * @throws AppError if the chain does not answer; the caller may retry
 */
export async function identify(
  reader: RpcChainReader,
  address: Address,
  options: IdentifyOptions,
): Promise<Identification | undefined> {
  const { mayBeginEarly = false, signal } = options;
  const { header, results, code, final } = await lookAt(reader, address);
  const hasCode = code !== undefined;
  const { name, symbol, decimals, claimed } = answersIn(results);
  const head = header.number;
  let ends: readonly number[] = [];
  const identity = (fields: Pick<ContractIdentified, "kind" | "forms" | "startBlock">): Identification => ({
    identified: {
      type: "ContractIdentified",
      ...fields,
      // A reorg may move a young contract, or its first log, to an earlier block, but never across the final block.
      startBlock: Math.min(fields.startBlock, final + 1),
      name,
      symbol,
      block: head,
    },
    ends: ends.filter((end) => end <= final),
    hasCode,
    destroyedAt: hasCode ? (ends.find((end) => end > final) ?? null) : head,
  });

  // Its logs are transfers of ether. Some are in nearly every block, and all of them would be read.
  if (address === SYSTEM_ADDRESS) return identity({ kind: "not_a_contract", forms: [], startBlock: 0 });
  const claims = hasCode && claimed.length > 0;
  // Other contracts are identified by the first logs after the deployment.
  const nearEnough = mayBeginEarly && claims ? EARLY : 0;
  // Don't start at the first log's block: a log that this answer omits would be missed for ever.
  const life = hasCode
    ? await lifeOf(reader, address, { code, head, nearEnough, archives: options.archives, signal })
    : { startBlock: await firstLogsWithoutCode(reader, address, header), ends };
  const { startBlock } = life;
  ends = life.ends;
  const forms = formsClaimed(claimed, decimals);
  if (claims) return identity({ kind: "nft", forms, startBlock });
  const found = await searchForms(reader, address, { ...options, header, hasCode, final, startBlock, decimals });
  if (found === undefined) return undefined;
  if (found.forms.length > 0) {
    return identity({ kind: "nft", forms: [...new Set([...found.forms, ...forms])], startBlock });
  }
  return identity({ kind: hasCode ? "not_nft" : "not_a_contract", forms: [], startBlock: found.firstBlock });
}

/** What a contract answers about itself. */
interface Answers {
  readonly name: string;
  readonly symbol: string;
  readonly decimals: number | undefined;
  /** Forms of the standards that it claims by ERC-165. */
  readonly claimed: readonly TransferForm[];
}

function answersIn(results: readonly CallResult[]): Answers {
  const [erc165, invalid, ...claims] = results.map((result) => booleanIn(result) === true);
  const [named, symbolic, divisible] = results.slice(INTERFACES.length);
  // ERC-165 requires false for 0xffffffff. A contract that answers true to every id proves nothing.
  const isHonest = erc165 === true && invalid !== true;
  return {
    name: readText(named),
    symbol: readText(symbolic),
    decimals: readDecimals(divisible),
    // ERC-821's interface says how an ERC-721 mints.
    claimed: CLAIMED_FORMS.filter((form, index) => {
      return isHonest && claims[index] === true && (form !== "erc821-created" || claims[0] === true);
    }),
  };
}

/** What a contract says of itself now. */
export interface SelfDescription extends Pick<Answers, "name" | "symbol" | "claimed"> {
  /** False if there is neither a contract nor an answer of a delegate: then nothing is said. */
  readonly isThere: boolean;
  readonly block: number;
}

/**
 * Reads name, symbol, claimed standards and code at the newest block. An empty name or symbol is read once more in a call
 * of its own: a batch may have taken its gas.
 * @throws AppError if the chain does not answer
 */
export async function readDescription(reader: RpcChainReader, address: Address): Promise<SelfDescription> {
  const { header, results, code } = await lookAt(reader, address);
  const { name, symbol, claimed } = answersIn(results);
  const again = async (text: string, signature: string) => {
    if (text !== "") return text;
    const call = { to: address, data: ABI.encodeFunctionData(signature), isGetter: true };
    const [result] = await reader.calls([call], header.number);
    return readText(result);
  };
  return {
    name: await again(name, "name"),
    symbol: await again(symbol, "symbol"),
    claimed,
    isThere: code !== undefined || results.some(({ ok, data }) => ok && data !== "0x"),
    block: header.number,
  };
}

interface FormSearch extends IdentifyOptions {
  readonly header: BlockHeader;
  readonly hasCode: boolean;
  readonly final: number;
  readonly startBlock: number;
  readonly decimals: number | undefined;
}

/**
 * Searches a contract's logs for the first ones that show an NFT. Returns their forms, and the first block with any log;
 * no forms if the contract is no NFT. Undefined if `reach` ends before the history.
 */
async function searchForms(
  reader: RpcChainReader,
  address: Address,
  { reach, known, onSearched, archives, signal, header, hasCode, final, startBlock, decimals }: FormSearch,
): Promise<{ readonly forms: readonly TransferForm[]; readonly firstBlock: number } | undefined> {
  const head = header.number;
  const formsOf = async (logs: readonly ChainLog[]): Promise<readonly TransferForm[] | undefined> => {
    const plain = formsOfEvents(logs);
    const isForeign = hasCode && plain?.[0] === "cryptopunks" && (await isUnknownMarket(reader, address, logs));
    if (plain !== undefined && !isForeign) return plain;
    const odd = (await oddForm(reader, address, logs)) ?? (await oddFormNow(reader, address, head));
    return odd && [odd];
  };
  // Divisible tokens are no NFTs, unless they emit an event that no ERC-20 has. 0 (CryptoPunks) proves nothing.
  let onlyCertain = decimals !== undefined && decimals > 0;
  let firstBlock = startBlock;
  const range = { address, fromBlock: startBlock, toBlock: final, signal };
  const told = archives && (await formsTold({ reader, archives }, { ...range, onlyCertain }, formsOf));
  if (told?.forms !== undefined) return { forms: told.forms, firstBlock: told.firstBlock };
  // Two archives have told of no log up to here, or of none that an ERC-20 can't have.
  const none = told?.none ?? -1;
  onlyCertain ||= told?.hasOther === true;
  const before = Math.max(none, known?.searched ?? -1);
  const firstEnd = Math.max(startBlock, known?.startBlock ?? 0) + FIRST_BLOCKS - 1;
  const last = reach === "all" || none >= firstEnd ? head : Math.min(head, firstEnd);
  let search = reader.logSearch({ logs: SEARCH_LOGS });
  for (let from = Math.max(none + 1, firstEnd - FIRST_BLOCKS + 1); from <= last; ) {
    signal.throwIfAborted();
    // The contract may answer otherwise than before, so its first logs are judged again.
    const toBlock = from <= firstEnd ? Math.min(last, firstEnd) : last;
    const range = { addresses: [address], fromBlock: from, toBlock, onlyCertain, head: header, final };
    const found = await nextLogs(search, range, signal);
    if (found.logs.length > 0) {
      firstBlock = (found.logs[0] as ChainLog).blockNumber;
      const forms = await formsOf(found.logs);
      if (forms !== undefined) return { forms, firstBlock };
      onlyCertain = true;
    }
    const searched = Math.max(before, Math.min(found.toBlock, final));
    await onSearched?.({ startBlock, target: head, searched });
    from = found.toBlock + 1;
    if (from <= firstEnd || from > before) continue;
    from = before + 1;
    search = resumedSearch(reader);
  }
  return last < head ? undefined : { forms: [], firstBlock };
}

/** What archives tell of a contract's forms. */
type FormsTold =
  | { readonly forms: readonly TransferForm[]; readonly firstBlock: number; readonly none?: never }
  /** `hasOther`: there are logs that an ERC-20 may have, too. */
  | { readonly forms?: never; readonly none: number; readonly hasOther: boolean };

/** Asks archives for the first logs that show an NFT. Undefined if the node has to search. */
async function formsTold(
  parts: { readonly reader: RpcChainReader; readonly archives: Archives },
  { onlyCertain, ...range }: Omit<ToldSearch, "forms"> & { readonly onlyCertain: boolean },
  formsOf: (logs: readonly ChainLog[]) => Promise<readonly TransferForm[] | undefined>,
): Promise<FormsTold | undefined> {
  let { fromBlock } = range;
  for (const wanted of onlyCertain ? [STANDARD_FORMS] : [undefined, STANDARD_FORMS]) {
    const told = await firstTold(parts, { ...range, fromBlock, forms: wanted });
    if (told === undefined) return undefined;
    if ("none" in told) return { none: told.none, hasOther: fromBlock > range.fromBlock };
    const forms = await formsOf(told.logs);
    if (forms !== undefined) return { forms, firstBlock: (told.logs[0] as ChainLog).blockNumber };
    fromBlock = (told.logs.at(-1) as ChainLog).blockNumber + 1;
  }
  return undefined;
}

/** Reads a contract's answers and code (undefined for none) at the newest block, and the number of the final block. */
async function lookAt(
  reader: ChainReader,
  address: Address,
  isAgain = false,
): Promise<CallsAtHead & { readonly code: string | undefined; readonly final: number }> {
  const { header, results } = await reader.callsAtHead(
    QUESTIONS.map((data) => ({ to: address, data, isGetter: true })),
  );
  const [code, final] = await Promise.all([
    reader.code(address, header.number).catch((error: unknown) => {
      if (isAgain || !isStateUnavailable(error)) throw error;
      return undefined;
    }),
    reader.finalized(header),
  ]);
  const hasCode = code !== undefined && isContract(code);
  // An endpoint that is behind lacks a young contract. The other endpoints may have dropped its newest block's state.
  const isDoubtful = !hasCode && !isAgain;
  if (isDoubtful && ((await reader.benchLaggards(header)) || code === undefined)) {
    return lookAt(reader, address, true);
  }
  return { header, results, code: hasCode ? code : undefined, final: final.number };
}

/**
 * Returns the forms of a contract that claims standards. With ERC-721 it may still emit unusual forms. Three topics and
 * one word of data are an id only if the contract has no decimals; otherwise the word may be an amount.
 */
function formsClaimed(claimed: readonly TransferForm[], decimals: number | undefined): readonly TransferForm[] {
  if (claimed.length === 0) return [];
  if (!claimed.includes("erc721")) return STANDARD_FORMS;
  const odd: TransferForm[] = decimals === undefined ? ["erc721-unindexed", "erc721-id-in-data"] : ["erc721-unindexed"];
  return [...STANDARD_FORMS, ...odd, ...(claimed.includes("erc821-created") ? (["erc821-created"] as const) : [])];
}

/** Reads a string or bytes32 (as in early contracts); "" for no answer. Invalid UTF-8 becomes U+FFFD. */
export function readText(result: CallResult | undefined): string {
  if (result?.ok !== true || result.data.length < 66) return "";
  try {
    if (result.data.length > 66) return clean(utf8Text(onlyBytes(result.data)));
  } catch {
    // Not a string. It may be bytes32 followed by more data.
  }
  const bytes = Buffer.from(result.data.slice(2, 66), "hex");
  const end = bytes.indexOf(0);
  return clean(utf8Text(bytes.subarray(0, end < 0 ? 32 : end)));
}

/** Most characters read of a name. A hostile name may have megabytes of control characters. */
const MAX_READ = 4_096;

/** Removes control characters and lone surrogates: the text goes into JSON and logs. At most 256 characters. */
function clean(text: string): string {
  return text
    .slice(0, MAX_READ)
    .replace(/\p{Cc}/gu, "")
    .toWellFormed()
    .slice(0, 256)
    .toWellFormed();
}

function readDecimals(result: CallResult | undefined): number | undefined {
  const value = wordIn(result);
  return value !== undefined && value <= 255n ? Number(value) : undefined;
}

/**
 * The first block that can hold a log of an address without code. A destroyed contract has sent no transactions; an
 * account that has sent some can only emit what a delegate told it to.
 */
async function firstLogsWithoutCode(reader: RpcChainReader, address: Address, head: BlockHeader): Promise<number> {
  return (await reader.transactionCount(address)) === 0 ? 0 : await firstDelegations(reader, head);
}

interface LifeOptions extends Pick<IdentifyOptions, "signal"> {
  readonly code: string;
  readonly head: number;
  readonly nearEnough: number;
  readonly archives: Archives | undefined;
}

/**
 * Searches for the deployment, and for earlier lives if the code can destroy itself. Block 0 and no life if the node has
 * no old state.
 */
async function lifeOf(
  reader: RpcChainReader,
  address: Address,
  { code, head, nearEnough, ...options }: LifeOptions,
): Promise<{ startBlock: number; ends: readonly number[] }> {
  try {
    const isFinal = !mayBeDestroyed(code);
    const search = { isThere: true, after: -1, by: head, nearEnough: isFinal ? nearEnough : 0 };
    const deployed = await firstBlockWhere(reader, address, search);
    if (isFinal) return { startBlock: deployed, ends: [] };
    return await findLives(reader, address, { ...options, deployed, head });
  } catch (error) {
    if (isStateUnavailable(error)) return { startBlock: 0, ends: [] };
    throw error;
  }
}

export const resumedSearch = (reader: RpcChainReader): LogSearch =>
  reader.logSearch({ blocks: RESUMED_SPAN, logs: SEARCH_LOGS });

interface SearchedRange extends BlockRange {
  readonly addresses: readonly Address[];
  /** Ignores logs that an ERC-20 may emit as well: those with fewer than four topics. */
  readonly onlyCertain: boolean;
  /** The newest block, which the endpoint must have for blocks above the final one. */
  readonly head: BlockRef;
  readonly final: number;
}

/**
 * Returns the possible NFT logs of the first blocks of a range, as many as fit into one answer. An answer without logs
 * says so only of the blocks up to its `toBlock`.
 */
export async function nextLogs(
  search: LogSearch,
  { onlyCertain, head, final, ...range }: SearchedRange,
  signal: AbortSignal,
): Promise<FirstLogs> {
  const toBlock = Math.min(range.toBlock, range.fromBlock + MAX_WINDOW - 1);
  const filter = { ...range, toBlock, topics: IDENTIFYING_TOPICS, ...(onlyCertain ? { moreTopics: ANY_THREE } : {}) };
  const requiredBlock = toBlock > final ? head : undefined;
  const found = await search.next(filter, { requiredBlock, signal });
  // go-ethereum leaves out logs with fewer topics than the filter has places. Other nodes send them.
  return onlyCertain ? { ...found, logs: found.logs.filter(({ topics }) => topics.length === 4) } : found;
}

/** Three more topics, whichever they are. */
const ANY_THREE: MoreTopics = [undefined, undefined, undefined];

/** Returns the forms that the events' shape alone proves. Undefined if an ERC-20 could have emitted them as well. */
function formsOfEvents(logs: readonly ChainLog[]): readonly TransferForm[] | undefined {
  const has = (...topics: string[]) => logs.some((log) => topics.includes(log.topics[0] ?? ""));
  const isIndexed = ({ topics }: ChainLog) => topics[0] === TRANSFER || topics[0] === TRANSFER_6909;
  const indexed = logs.some((log) => isIndexed(log) && log.topics.length === 4);
  if (indexed || has(TRANSFER_SINGLE, TRANSFER_BATCH, CONSECUTIVE_TRANSFER)) return STANDARD_FORMS;
  if (has(TRANSFER_821, TRANSFER_821_SECOND)) return [...STANDARD_FORMS, "erc821-created"];
  if (has(CAT_RESCUED, CAT_ADOPTED)) return ["mooncats"];
  return has(ASSIGN, PUNK_TRANSFER, PUNK_BOUGHT) ? ["cryptopunks"] : undefined;
}

/** The form that a log proves by its shape alone. */
function formOf({ topics }: ChainLog): TransferForm | undefined {
  const [topic, ...indexed] = topics;
  if (topic === TRANSFER || topic === TRANSFER_6909) {
    return indexed.length < 3 ? undefined : topic === TRANSFER ? "erc721" : "erc6909";
  }
  if (topic === TRANSFER_SINGLE || topic === TRANSFER_BATCH) return "erc1155";
  if (topic === CONSECUTIVE_TRANSFER) return "erc2309";
  return topic === TRANSFER_821 || topic === TRANSFER_821_SECOND ? "erc821" : undefined;
}

/** Returns a contract's forms together with those that logs prove. Undefined if they prove no other one. */
export function formsGained(
  logs: readonly ChainLog[],
  forms: readonly TransferForm[],
): readonly TransferForm[] | undefined {
  const all = new Set(forms);
  for (const log of logs) all.add(formOf(log) ?? (forms[0] as TransferForm));
  return all.size > forms.length ? [...all] : undefined;
}

/**
 * True if all logs are CryptoPunks' `Assign` and the contract lacks CryptoPunks' view. CryptoCats announces first
 * owners by `Assign` and sales by its own events. Read as CryptoPunks, it would be listed with sellers as owners.
 */
async function isUnknownMarket(reader: ChainReader, address: Address, logs: readonly ChainLog[]): Promise<boolean> {
  const assigned = logs.find((log) => log.topics[0] === ASSIGN && log.data.length === 66);
  const isCertain = logs.some((log) => log.topics[0] === PUNK_TRANSFER || log.topics[0] === PUNK_BOUGHT);
  if (assigned === undefined || isCertain) return false;
  const data = ABI.encodeFunctionData("punkIndexToAddress", [assigned.data]);
  const [result] = await reader.calls([{ to: address, data }], "latest");
  return result?.ok !== true || result.data.length !== 66;
}

/** Returns a form that ERC-20 shares, if the contract names owners for the possible ids. */
async function oddForm(
  reader: ChainReader,
  address: Address,
  logs: readonly ChainLog[],
): Promise<TransferForm | undefined> {
  const transfers = logs.filter((log) => log.topics[0] === TRANSFER);
  const inData = transfers.filter((log) => log.topics.length === 3 && log.data.length === 66);
  if (inData.length > 0 && (await idsHaveOwners(reader, address, inData, 0))) return "erc721-id-in-data";
  const unindexed = transfers.filter((log) => log.topics.length === 1 && log.data.length === 194);
  if (unindexed.length > 0 && (await idsHaveOwners(reader, address, unindexed, 128))) return "erc721-unindexed";
  return undefined;
}

/** Like `oddForm`, by the newest logs: the first tokens may all be burned by now. */
async function oddFormNow(reader: ChainReader, address: Address, head: number): Promise<TransferForm | undefined> {
  const fromBlock = Math.max(0, head - NEWEST_BLOCKS + 1);
  return oddForm(
    reader,
    address,
    await reader.logs({ addresses: [address], topics: [TRANSFER], fromBlock, toBlock: head }),
  );
}

/** True if `ownerOf` knows an id of these logs. Otherwise the same shape is an ERC-20's amount. */
async function idsHaveOwners(
  reader: ChainReader,
  address: Address,
  logs: readonly ChainLog[],
  idAt: number,
): Promise<boolean> {
  const words = new Set(logs.map((log) => log.data.slice(2 + idAt, 2 + idAt + 64)));
  // The newest logs: their tokens are the least likely to be burned.
  const ids = [...words].slice(-SAMPLES).map((word) => BigInt(`0x${word}`));
  const results = await reader.calls(
    ids.map((id) => ({ to: address, data: ABI.encodeFunctionData("ownerOf", [id]) })),
    "latest",
  );
  return results.some((result) => (addressIn(result) ?? ZERO_ADDRESS) !== ZERO_ADDRESS);
}
