/**
 * Asks contracts for the URIs of their tokens: `tokenURI` and `uri` in Multicall3 batches. A token that burns all gas
 * or has a huge answer makes its batch fail. So tokens that failed in a batch are asked again one by one, unless the
 * contract has shown that it has no URIs at all.
 */
import type { Address } from "../core/hex.ts";
import { TransferKind } from "../events/columns.ts";
import { onlyBytes, selectorOf } from "../rpc/abi-bytes.ts";
import type { BlockTag, Call, CallResult, ChainReader } from "../rpc/port.ts";

export interface AskedToken {
  readonly kind: TransferKind;
  readonly id: bigint;
}

const TOKEN_URI = selectorOf("tokenURI(uint256)");
const URI = selectorOf("uri(uint256)");
/** Bytes that are not UTF-8 are no URI. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** Single calls in flight at once. */
const SINGLES = 8;
/** Tokens asked one by one without a URI, after which the contract's failures in a batch count as final. */
const BELIEVED_AFTER = 20;
const MAX_CONTRACTS = 1_000;

export class UriAsker {
  readonly #reader: ChainReader;
  /** Contracts without a URI so far: number of tokens asked one by one. */
  readonly #silent = new Map<Address, number>();

  constructor(reader: ChainReader) {
    this.#reader = reader;
  }

  /**
   * The URIs, in the order of `tokens`; undefined if the contract returns none.
   * @throws AppError if the chain can't be read
   */
  async ask(address: Address, tokens: readonly AskedToken[], block: BlockTag): Promise<(string | undefined)[]> {
    const calls = tokens.map(({ kind, id }) => callOf(address, kind, id));
    const results = await this.#reader.calls(calls, block);
    const uris = results.map(uriOf);
    const missing = uris.flatMap((uri, index) => (uri === undefined && !results[index]?.ok ? [index] : []));
    if (uris.length > missing.length) this.#silent.delete(address);
    const isSilent = (this.#silent.get(address) ?? 0) >= BELIEVED_AFTER;
    if (tokens.length > 1 && !isSilent) await this.#askAlone(address, calls, missing, uris, block);
    return uris;
  }

  async #askAlone(
    address: Address,
    calls: readonly Call[],
    missing: number[],
    uris: (string | undefined)[],
    block: BlockTag,
  ): Promise<void> {
    const queue = [...missing];
    const errors: unknown[] = [];
    const work = async () => {
      for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
        try {
          const [result] = await this.#reader.calls([calls[index] as Call], block);
          uris[index] = result === undefined ? undefined : uriOf(result);
        } catch (error) {
          errors.push(error);
          continue;
        }
        if (uris[index] === undefined) this.#note(address);
        else this.#silent.delete(address);
        if ((this.#silent.get(address) ?? 0) >= BELIEVED_AFTER) return;
      }
    };
    await Promise.all(Array.from({ length: SINGLES }, work));
    // If the node answered other calls, the calls with errors are the fault of their tokens.
    if (errors.length > 0 && uris.every((uri) => uri === undefined)) throw errors[0];
  }

  #note(address: Address): void {
    const count = (this.#silent.get(address) ?? 0) + 1;
    this.#silent.delete(address);
    this.#silent.set(address, count);
    if (this.#silent.size <= MAX_CONTRACTS) return;
    const [oldest] = this.#silent.keys();
    if (oldest !== undefined) this.#silent.delete(oldest);
  }
}

function callOf(to: Address, kind: TransferKind, id: bigint): Call {
  const selector = kind === TransferKind.erc1155 ? URI : TOKEN_URI;
  return { to, data: `${selector}${id.toString(16).padStart(64, "0")}` };
}

/** The string in a call's result; undefined for a revert, an empty result, or data that is not a string. */
function uriOf({ ok, data }: CallResult): string | undefined {
  if (!ok || data.length <= 2) return undefined;
  try {
    const uri = utf8.decode(onlyBytes(data));
    return uri === "" ? undefined : uri;
  } catch {
    return undefined;
  }
}
