/**
 * Gathers trie nodes and codes from one endpoint: `eth_getProof` for accounts and slots (EIP-1186), `eth_getCode` for
 * codes. Nothing of it is believed: a run finds each value from the header's state root down, or doesn't.
 */
import { type Address, quantity } from "../core/hex.ts";
import { keccakOf } from "../core/keccak.ts";
import type { Endpoint } from "../rpc/port.ts";
import { requestParsed } from "../rpc/reading/one-call.ts";
import { isUnknownRefusal, RpcError } from "../rpc/rpc-errors.ts";
import type { WantedState } from "./run-worker.ts";
import { CALL_GAS } from "./verifier/claim.ts";

/** Slots of one request. Go-ethereum takes 1,024, and some providers fewer. */
const SLOTS_AT_ONCE = 256;
/** Slots of one request to an endpoint that refused more. */
const FEW_SLOTS = 16;
/** Most accounts and slots of one proof. */
const MAX_ACCOUNTS = 128;
export const MAX_SLOTS = 4_096;

const BYTES = /^0x(?:[0-9a-f]{2})*$/;

export class GatheredState {
  readonly nodes = new Set<string>();
  /** By hash. */
  readonly codes = new Map<string, string>();
  readonly #endpoint: Endpoint;
  readonly #tag: string;
  /** What was asked for. */
  readonly #slots = new Map<Address, Set<string>>();
  #slotCount = 0;
  #atOnce = SLOTS_AT_ONCE;

  /** @param tag the block's number as a quantity */
  constructor(endpoint: Endpoint, tag: string) {
    this.#endpoint = endpoint;
    this.#tag = tag;
  }

  /** True if all of it was asked for before: asking again brings nothing. */
  hasAsked(wanted: readonly WantedState[]): boolean {
    return wanted.every(({ address, slot }) => {
      const asked = this.#slots.get(address);
      return asked !== undefined && (slot === undefined || asked.has(slot));
    });
  }

  /** True if a proof may not have as much. */
  isTooMuch(wanted: readonly WantedState[]): boolean {
    const accounts = new Set(this.#slots.keys());
    let slots = this.#slotCount;
    for (const [address, own] of slotsByAddress(wanted)) {
      accounts.add(address);
      const known = this.#slots.get(address);
      for (const slot of own) if (known?.has(slot) !== true) slots++;
    }
    return accounts.size > MAX_ACCOUNTS || slots > MAX_SLOTS;
  }

  /** Fetches what was not asked for yet, in one round trip unless there are many slots. @throws RpcError */
  async fetch(wanted: readonly WantedState[]): Promise<void> {
    const requests: Promise<void>[] = [];
    for (const [address, slots] of slotsByAddress(wanted)) {
      const known = this.#slots.get(address);
      const fresh = [...slots].filter((slot) => known?.has(slot) !== true);
      if (known !== undefined && fresh.length === 0) continue;
      this.#slots.set(address, new Set([...(known ?? []), ...fresh]));
      this.#slotCount += fresh.length;
      if (known === undefined) requests.push(this.#fetchCode(address));
      requests.push(this.#fetchProof(address, fresh));
    }
    await Promise.all(requests);
  }

  async #fetchCode(address: Address): Promise<void> {
    const code = await requestParsed(this.#endpoint, "eth_getCode", [address, this.#tag], bytesOfNode);
    if (code !== "0x") this.codes.set(keccakOf(code), code);
  }

  /** @throws RpcError if the endpoint refuses few slots, too */
  async #fetchProof(address: Address, slots: readonly string[]): Promise<void> {
    const atOnce = this.#atOnce;
    const parts = Array.from({ length: Math.max(1, Math.ceil(slots.length / atOnce)) }, (_, at) =>
      slots.slice(at * atOnce, (at + 1) * atOnce),
    );
    try {
      await Promise.all(parts.map((part) => this.#fetchPart(address, part)));
    } catch (error) {
      if (slots.length <= FEW_SLOTS || atOnce === FEW_SLOTS || !isUnknownRefusal(error)) throw error;
      this.#atOnce = FEW_SLOTS;
      await this.#fetchProof(address, slots);
    }
  }

  async #fetchPart(address: Address, slots: readonly string[]): Promise<void> {
    const nodes = await requestParsed(this.#endpoint, "eth_getProof", [address, slots, this.#tag], nodesIn);
    for (const node of nodes) this.nodes.add(node);
  }
}

function slotsByAddress(wanted: readonly WantedState[]): ReadonlyMap<Address, ReadonlySet<string>> {
  const slots = new Map<Address, Set<string>>();
  for (const { address, slot } of wanted) {
    const own = slots.get(address) ?? new Set();
    slots.set(address, own);
    if (slot !== undefined) own.add(slot);
  }
  return slots;
}

function bytesOfNode(answer: unknown): string {
  const text = String(answer).toLowerCase();
  if (!BYTES.test(text)) throw new TypeError("not bytes in hex");
  return text;
}

/** The nodes of an answer of `eth_getProof`. @throws TypeError */
function nodesIn(answer: unknown): string[] {
  const { accountProof, storageProof } = answer as { accountProof: unknown[]; storageProof: { proof: unknown[] }[] };
  return [...accountProof, ...storageProof.flatMap(({ proof }) => proof)].map(bytesOfNode);
}

/** What an access list names (EIP-2930). Undefined if the endpoint gives none: it may lack the method, or the call reverts. */
export async function accessListOf(
  endpoint: Endpoint,
  call: { readonly to: Address; readonly data: string },
  tag: string,
): Promise<WantedState[] | undefined> {
  try {
    return await requestParsed(
      endpoint,
      "eth_createAccessList",
      [{ ...call, gas: quantity(CALL_GAS) }, tag],
      listedState,
    );
  } catch (error) {
    if (error instanceof RpcError && (!error.retryable || isUnknownRefusal(error))) return undefined;
    throw error;
  }
}

function listedState(answer: unknown): WantedState[] {
  const { accessList } = answer as { accessList: { address: string; storageKeys: string[] }[] };
  return accessList.flatMap(({ address, storageKeys }) => {
    const to = wordOfHex(address, 40) as Address;
    return [{ address: to }, ...storageKeys.map((slot) => ({ address: to, slot: wordOfHex(slot, 64) }))];
  });
}

function wordOfHex(text: string, digits: number): string {
  const lower = text.toLowerCase();
  if (lower.length !== digits + 2 || !BYTES.test(lower)) throw new TypeError("not hex of that length");
  return lower;
}
