/**
 * Reads the URIs of tokens from their contracts, in batches of calls. A token whose call spoils its batch is read alone.
 */
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import { utf8Text } from "../../core/utf8.ts";
import { type TokenRef, TransferKind } from "../../events/columns.ts";
import type { MetadataReason } from "../../events/types.ts";
import { onlyBytes, selectorOf } from "../../rpc/calls.ts";
import type { BlockTag, Call, CallResult, ChainReader } from "../../rpc/port.ts";

const TOKEN_URI = selectorOf("tokenURI(uint256)");
const URI = selectorOf("uri(uint256)");
const CONTRACT_URI = selectorOf("contractURI()");
/** Single calls in flight at once. */
const SINGLES = 8;
/** Tokens in a row that had no URI alone, after which the contract's failures in a batch count as final. */
const BELIEVED_AFTER = 20;
const MAX_CONTRACTS = 1_000;

/** A token's URI, or why there is none. */
export type TokenUri =
  | { readonly uri: string; readonly reason?: undefined }
  | { readonly uri?: undefined; readonly reason: Extract<MetadataReason, "no_uri" | "out_of_gas" | "too_large"> };

/**
 * Reads the URIs of tokens from their contracts: `tokenURI` and `uri` in batches, in which each has a bound on its gas and on
 * its length. A token may need more, and where the node can't bound each, one spoils its batch. So tokens that failed in a
 * batch are read again one by one, unless many single ones of the contract had no URI.
 */
export class TokenUriReader {
  readonly #reader: ChainReader;
  /** Tokens in a row that had no URI alone, by contract. */
  readonly #silent = countedCache<Address, number>(MAX_CONTRACTS);

  constructor(reader: ChainReader) {
    this.#reader = reader;
  }

  /**
   * The URIs, in the order of `tokens`.
   * @throws AppError if the chain can't be read
   */
  async read(address: Address, tokens: readonly TokenRef[], block: BlockTag): Promise<TokenUri[]> {
    const calls = tokens.map(({ kind, id }) => callOf(address, kind, id));
    const results = await this.#reader.calls(calls, block);
    const uris = results.map(uriOf);
    const missing = uris.flatMap(({ uri }, index) => (uri === undefined && !results[index]?.ok ? [index] : []));
    const isSilent = (this.#silent.get(address) ?? 0) >= BELIEVED_AFTER;
    if (tokens.length > 1 && !isSilent) await this.#readSingly(address, calls, missing, uris, block);
    return uris;
  }

  async #readSingly(
    address: Address,
    calls: readonly Call[],
    missing: number[],
    uris: TokenUri[],
    block: BlockTag,
  ): Promise<void> {
    const queue = [...missing];
    const errors: unknown[] = [];
    const work = async () => {
      for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
        let answer: TokenUri;
        try {
          const [result] = await this.#reader.calls([calls[index] as Call], block);
          answer = uriOf(result as CallResult);
        } catch (error) {
          errors.push(error);
          continue;
        }
        uris[index] = answer;
        if (answer.uri === undefined) this.#silent.set(address, (this.#silent.get(address) ?? 0) + 1);
        else this.#silent.delete(address);
        if ((this.#silent.get(address) ?? 0) >= BELIEVED_AFTER) return;
      }
    };
    await Promise.all(Array.from({ length: SINGLES }, work));
    // If the node answered other calls, the calls with errors are the fault of their tokens.
    if (errors.length > 0 && uris.every(({ uri }) => uri === undefined)) throw errors[0];
  }
}

function callOf(to: Address, kind: TransferKind, id: bigint): Call {
  if (kind === TransferKind.contract) return { to, data: CONTRACT_URI, isText: true };
  const selector = kind === TransferKind.erc1155 ? URI : TOKEN_URI;
  return { to, data: `${selector}${id.toString(16).padStart(64, "0")}`, isText: true };
}

/** The string in a call's result. A revert, an empty result, and data that are no string are no URI. */
function uriOf({ ok, data, exceeds }: CallResult): TokenUri {
  if (exceeds !== undefined) return { reason: exceeds === "gas" ? "out_of_gas" : "too_large" };
  if (!ok || data.length <= 2) return { reason: "no_uri" };
  try {
    const uri = utf8Text(onlyBytes(data));
    return uri === "" ? { reason: "no_uri" } : { uri };
  } catch {
    return { reason: "no_uri" };
  }
}
