/**
 * The true listing, from the chain itself: owners and amounts by calls at the block, order and block numbers from the
 * logs decoded with the contract's own ABI. It shares no code with the service.
 */
import { Interface, type LogDescription } from "ethers";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import type { Deployed, Receipt } from "../../scripts/local-chain/contracts.ts";
import { type Holdings, type World, ZERO } from "./nft-kinds.ts";

const MULTICALL = new Interface([
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])",
]);
const minterOf = (type: string, to: string): string =>
  type === "ERC1155" || type === "ERC6909" ? `${type} tokens don't have a single minter` : to;

/** The fields of a record that the chain determines. */
export interface Fact {
  token_id: string;
  owner_of: string;
  block_number: string;
  block_number_minted: string;
  contract_type: string;
  minter_address: string;
  amount: string;
}

/** A transfer in the contract's logs. */
interface Move {
  readonly event: string;
  readonly block: number;
  readonly logIndex: number;
  readonly transaction: string;
  readonly type: string;
  readonly id: bigint;
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
}

/** Returns the holdings after `block` by the contract's own views. */
export async function holdingsAt(anvil: Anvil, multicall: Deployed, world: World, block: number): Promise<Holdings> {
  const { kind, deployed, people } = world;
  const ids = kind.ids(world);
  const view = kind.ownerView;
  const contract = deployed.contract.interface;
  const questions =
    view === undefined
      ? ids.flatMap((id) => people.map((owner) => ({ id, owner, name: "balanceOf", args: [owner, id] })))
      : ids.map((id) => ({ id, owner: "", name: view as string, args: [kind.idArgument?.(id) ?? id] }));
  const calls = questions.map(({ name, args }) => [deployed.address, true, contract.encodeFunctionData(name, args)]);
  const data = MULTICALL.encodeFunctionData("aggregate3", [calls]);
  const tag = `0x${block.toString(16)}`;
  const returned = await anvil.send("eth_call", [{ to: multicall.address, data }, tag]);
  const [results] = MULTICALL.decodeFunctionResult("aggregate3", returned as string);
  const holdings: Holdings = new Map();
  for (const [index, { success, returnData }] of (results as { success: boolean; returnData: string }[]).entries()) {
    const question = questions[index];
    // The contract has no code yet, or the token doesn't exist.
    if (question === undefined || !success || returnData === "0x") continue;
    const [value] = contract.decodeFunctionResult(question.name, returnData);
    const [owner, amount] = view === undefined ? [question.owner, value as bigint] : [String(value).toLowerCase(), 1n];
    if (owner === ZERO || amount === 0n) continue;
    const holders = holdings.get(question.id) ?? new Map<string, bigint>();
    holdings.set(question.id, holders.set(owner, amount));
  }
  return holdings;
}

function movesOfLog(log: LogDescription, place: Pick<Move, "block" | "logIndex" | "transaction">): Move[] {
  const text = (value: unknown) => String(value).toLowerCase();
  const move = (type: string, from: unknown, to: unknown, id: bigint, amount = 1n): Move => ({
    event: log.signature,
    ...place,
    type,
    id,
    from: text(from),
    to: text(to),
    amount,
  });
  const a = log.args;
  switch (log.name) {
    case "Transfer":
      // ERC-6909 names the caller first, and an amount last.
      return log.signature === "Transfer(address,address,address,uint256,uint256)"
        ? [move("ERC6909", a[1], a[2], a[3], a[4])]
        : [move("ERC721", a[0], a[1], a[2])];
    case "ConsecutiveTransfer": {
      const count = Number((a[1] as bigint) - (a[0] as bigint)) + 1;
      return Array.from({ length: count }, (_, i) => move("ERC721", a[2], a[3], (a[0] as bigint) + BigInt(i)));
    }
    case "TransferSingle":
      return [move("ERC1155", a[1], a[2], a[3], a[4])];
    case "TransferBatch": {
      // Access by name or index would give the array method `values` of ethers' result.
      const [, from, to, ids, amounts] = a.toArray() as [string, string, string, bigint[], bigint[]];
      return [...ids].map((id, i) => move("ERC1155", from, to, id, amounts[i]));
    }
    case "Assign":
      return [move("CRYPTOPUNKS", ZERO, a[0], a[1])];
    case "Create":
      return [move("ERC721", ZERO, a[0], a[1])];
    case "Destroy":
      return [move("ERC721", a[0], ZERO, a[1])];
    case "CatRescued":
      return [move("MOONCATS", ZERO, a[0], BigInt(a[1]))];
    case "CatAdopted":
      return [move("MOONCATS", a[2], a[3], BigInt(a[0]))];
    case "PunkTransfer":
      return [move("CRYPTOPUNKS", a[0], a[1], a[2])];
    case "PunkBought":
      return [move("CRYPTOPUNKS", a[2], a[3], a[0])];
    default:
      return [];
  }
}

/** Returns every transfer of the contract on the canonical chain, in order. */
export async function movesOf(anvil: Anvil, world: World): Promise<Move[]> {
  const { deployed, kind } = world;
  const filter = { fromBlock: "0x0", toBlock: "latest", address: deployed.address };
  const logs = (await anvil.send("eth_getLogs", [filter])) as (Receipt["logs"][number] & {
    blockNumber: string;
    transactionHash: string;
  })[];
  return logs
    .flatMap((log) => {
      const parsed = deployed.contract.interface.parseLog(log);
      const [block, logIndex] = [Number(log.blockNumber), Number(log.logIndex)];
      return parsed === null ? [] : movesOfLog(parsed, { block, logIndex, transaction: log.transactionHash });
    })
    .filter((move) => kind.types.includes(move.type as (typeof kind.types)[number]) && move.amount > 0n);
}

/** Returns the records of the listing after `block`. */
export function factsAt(moves: readonly Move[], holdings: Holdings, block: number): Fact[] {
  const tokens = new Map<string, Move[]>();
  for (const move of moves) {
    if (move.block > block) break;
    const key = `${move.type}/${move.id}`;
    tokens.set(key, [...(tokens.get(key) ?? []), move]);
  }
  const facts: Fact[] = [];
  for (const list of tokens.values()) {
    const first = list[0] as Move;
    const holders = holdings.get(first.id) ?? new Map<string, bigint>();
    if (holders.size === 0) continue;
    const minted = list.find((move) => move.from === ZERO) ?? first;
    const supply = [...holders.values()].reduce((sum, amount) => sum + amount, 0n);
    facts.push({
      token_id: String(first.id),
      owner_of: holders.size === 1 ? ([...holders.keys()][0] as string) : "",
      block_number: String(list.at(-1)?.block),
      block_number_minted: String(minted.block),
      contract_type: first.type,
      minter_address: minterOf(first.type, minted.to),
      amount: String(supply),
    });
  }
  return facts;
}

/** Returns the records with one per token and owner. */
export function holderFactsAt(moves: readonly Move[], holdings: Holdings, block: number): Fact[] {
  const pairs = new Map<string, { first: Move; last: Move; owner: string; minted: Move }>();
  const minted = new Map<string, Move>();
  for (const move of moves) {
    if (move.block > block) break;
    const key = `${move.type}/${move.id}`;
    if (move.from === ZERO && !minted.has(key)) minted.set(key, move);
    for (const owner of new Set([move.from, move.to])) {
      if (owner === ZERO) continue;
      const name = `${key}/${owner}`;
      const pair = pairs.get(name);
      if (pair === undefined) pairs.set(name, { first: move, last: move, owner, minted: minted.get(key) ?? move });
      else pair.last = move;
    }
  }
  const facts: Fact[] = [];
  for (const { first, last, owner, minted } of pairs.values()) {
    const amount = holdings.get(first.id)?.get(owner);
    if (amount === undefined) continue;
    facts.push({
      token_id: String(first.id),
      owner_of: owner,
      block_number: String(last.block),
      block_number_minted: String(first.block),
      contract_type: first.type,
      minter_address: minterOf(first.type, minted.to),
      amount: String(amount),
    });
  }
  return facts;
}

// biome-ignore lint/suspicious/noExplicitAny: a record off the wire
export const factOf = (record: any): Fact => ({
  token_id: record.token_id,
  owner_of: record.owner_of,
  block_number: record.block_number,
  block_number_minted: record.block_number_minted,
  contract_type: record.contract_type,
  minter_address: record.minter_address,
  amount: record.amount,
});
