/**
 * A naive model of a collection: it keeps every transfer as an object and answers every question by a replay of all.
 * The columns of the projection must give the same answers.
 */

import { bigIntToWords, encodeTransfers, hasAmounts, TransferKind } from "../../src/events/columns.ts";
import type { Collection } from "../../src/nft/collections/collection.ts";
import type { Entry } from "../../src/nft/ledger/entries.ts";

export interface ModelTransfer {
  kind: TransferKind;
  block: number;
  /** Small numbers stand for addresses; 0 is the zero address. */
  from: number;
  to: number;
  id: bigint;
  /** ERC-1155, ERC-6909: amount; range: number of ids. */
  amount: bigint;
}

export interface ModelEntry {
  kind: TransferKind;
  id: string;
  /** Index of the owner. -1: several. */
  owner: number;
  amount: string;
  block: number;
  blockMinted: number;
  /** Index of the minter. -1: none. */
  minter: number;
}

/** Entries of a listing in the form of the model. */
export function readable({ ledger }: Pick<Collection, "ledger">, entries: readonly Entry[]): ModelEntry[] {
  const name = (index: number) => (index < 0 ? -1 : Number(ledger.addresses.hex(index)));
  return entries.map((entry) => ({
    ...entry,
    id: entry.id.toString(),
    owner: name(entry.owner),
    minter: name(entry.minter),
    amount: entry.amount.toString(),
  }));
}

export function addressBytes(n: number): Uint8Array {
  const bytes = new Uint8Array(20);
  new DataView(bytes.buffer).setUint32(16, n);
  return bytes;
}

/** Encodes transfers as columns, as the decoder does. */
export function columnsOf(transfers: readonly ModelTransfer[]): Uint8Array {
  const dictionary = [...new Set(transfers.flatMap((t) => [t.from, t.to]))];
  const addresses = new Uint8Array(dictionary.length * 20);
  for (const [i, n] of dictionary.entries()) addresses.set(addressBytes(n), i * 20);
  const ids = new Uint32Array(transfers.length * 8);
  const amounts = new Uint32Array(transfers.length * 8);
  transfers.forEach((t, i) => {
    bigIntToWords(t.id, ids, i);
    bigIntToWords(t.amount, amounts, i);
  });
  return encodeTransfers({
    count: transfers.length,
    addressCount: dictionary.length,
    addresses,
    kinds: Uint8Array.from(transfers, (t) => t.kind),
    blocks: Uint32Array.from(transfers, (t) => t.block),
    logIndexes: Uint32Array.from(transfers, (_, i) => i),
    from: Uint32Array.from(transfers, (t) => dictionary.indexOf(t.from)),
    to: Uint32Array.from(transfers, (t) => dictionary.indexOf(t.to)),
    ids: { words: 8, values: ids },
    amounts: { words: 8, values: amounts },
  });
}

interface Pair {
  owner: number;
  amount: bigint;
  first: number;
  last: number;
}

interface Token {
  kind: TransferKind;
  id: bigint;
  owner: number;
  last: number;
  minted: { block: number; minter: number } | undefined;
  first: { block: number; minter: number };
}

/** The listing after `block`. */
export function modelListing(transfers: readonly ModelTransfer[], block: number, holders: boolean): ModelEntry[] {
  const tokens = new Map<string, Token>();
  const pairs = new Map<string, Pair & { token: string }>();
  const pair = (key: string, owner: number, at: number) => {
    const name = `${key}/${owner}`;
    let found = pairs.get(name);
    if (found === undefined) {
      found = { token: key, owner, amount: 0n, first: at, last: at };
      pairs.set(name, found);
    }
    return found;
  };
  const single = (kind: TransferKind, t: ModelTransfer, id: bigint) => {
    const key = `${kind}:${id}`;
    const here = { block: t.block, minter: t.to };
    let token = tokens.get(key);
    if (token === undefined) {
      token = { kind, id, owner: 0, last: t.block, minted: undefined, first: here };
      tokens.set(key, token);
    }
    if (t.from === 0) token.minted ??= here;
    if (token.owner !== 0) pair(key, token.owner, t.block).amount = 0n;
    token.owner = t.to;
    token.last = t.block;
    if (t.to !== 0) {
      const to = pair(key, t.to, t.block);
      to.amount = 1n;
      to.last = t.block;
    }
  };
  const amounts = (t: ModelTransfer) => {
    if (t.amount === 0n || (t.from === 0 && t.to === 0)) return;
    const key = `${t.kind}:${t.id}`;
    const here = { block: t.block, minter: -1 };
    let token = tokens.get(key);
    if (token === undefined) {
      token = { kind: t.kind, id: t.id, owner: 0, last: t.block, minted: undefined, first: here };
      tokens.set(key, token);
    }
    if (t.from === 0) token.minted ??= here;
    token.last = t.block;
    if (t.from !== 0) {
      const from = pair(key, t.from, t.block);
      from.amount = from.amount < t.amount ? 0n : from.amount - t.amount;
      from.last = t.block;
    }
    if (t.to !== 0) {
      const to = pair(key, t.to, t.block);
      to.amount += t.amount;
      to.last = t.block;
    }
  };
  for (const t of transfers) {
    if (t.block > block) break;
    if (hasAmounts(t.kind)) amounts(t);
    else if (t.kind === TransferKind.range) {
      for (let i = 0n; i < t.amount; i++) single(TransferKind.erc721, t, t.id + i);
    } else single(t.kind, t, t.id);
  }
  if (holders) {
    return [...pairs.values()]
      .filter((p) => p.amount > 0n)
      .map((p) => {
        const token = tokens.get(p.token) as Token;
        const mint = token.minted ?? token.first;
        return {
          kind: token.kind,
          id: token.id.toString(),
          owner: p.owner,
          amount: p.amount.toString(),
          block: p.last,
          blockMinted: p.first,
          minter: hasAmounts(token.kind) ? -1 : mint.minter,
        };
      });
  }
  const byToken = Map.groupBy(pairs.values(), (p) => p.token);
  const entries: ModelEntry[] = [];
  for (const [key, token] of tokens) {
    const mint = token.minted ?? token.first;
    const common = { kind: token.kind, id: token.id.toString(), block: token.last, blockMinted: mint.block };
    if (!hasAmounts(token.kind)) {
      if (token.owner !== 0) entries.push({ ...common, owner: token.owner, amount: "1", minter: mint.minter });
      continue;
    }
    const held = (byToken.get(key) ?? []).filter((p) => p.amount > 0n);
    if (held.length === 0) continue;
    const supply = held.reduce((sum, p) => sum + p.amount, 0n);
    const owner = held.length === 1 ? (held[0] as Pair).owner : -1;
    entries.push({ ...common, owner, amount: supply.toString(), minter: -1 });
  }
  return entries;
}

/** A transfer as the API lists it. */
export interface TransferRow {
  block: number;
  logIndex: number;
  from: number;
  to: number;
  id: bigint;
  amount: bigint;
}

/**
 * The transfers of a collection, oldest first, and which of them are ranges. A range that touches a known id, or is no
 * mint, is a transfer per id. A transfer of amount 0, or of an amount from the zero address to itself, is none.
 */
export function modelTransfers(transfers: readonly ModelTransfer[]): {
  rows: TransferRow[];
  ranges: Set<TransferRow>;
} {
  const rows: TransferRow[] = [];
  const ranges = new Set<TransferRow>();
  const known = new Set<bigint>();
  const indexes = new Map<number, number>();
  for (const { kind, block, from, to, id, amount } of transfers) {
    const logIndex = indexes.get(block) ?? 0;
    indexes.set(block, logIndex + 1);
    const common = { block, logIndex, from, to };
    if (kind !== TransferKind.range) {
      if (kind === TransferKind.erc721) known.add(id);
      const isNone = hasAmounts(kind) && (amount === 0n || (from === 0 && to === 0));
      if (!isNone) rows.push({ ...common, id, amount });
      continue;
    }
    const isLong = amount > 1_000n;
    const ids = Array.from({ length: isLong ? 0 : Number(amount) }, (_, i) => id + BigInt(i));
    const isKept = from === 0 && to !== 0 && (isLong || !ids.some((one) => known.has(one)));
    if (isKept) {
      const row = { ...common, id, amount };
      rows.push(row);
      ranges.add(row);
    } else for (const one of ids) rows.push({ ...common, id: one, amount: 1n });
    for (const one of ids) known.add(one);
  }
  return { rows, ranges };
}
