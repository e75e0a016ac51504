/**
 * The newest block and the newest final one: by the node's `finalized` tag, or so many blocks below the head where the
 * operator set a depth, the node does not know the tag, or a development node gives it to its head.
 */
import type { Endpoint } from "./endpoint.ts";
import { isUnknownRefusal, RpcError } from "./errors.ts";
import { headerBy, newestBy } from "./header.ts";
import type { EndpointPool } from "./pool.ts";
import type { BlockHeader, Tips } from "./port.ts";

/** A node that has just started has no final block yet, and says so in the words of one that does not know the tag. */
const LOOKS_WITHOUT_TAG = 100;
/** So many refusals of the tag in a row, in whatever words, while the newest block is shown: the node does not know it. */
const TAG_REFUSALS = 3;
/** How development nodes begin their answer to `web3_clientVersion`. */
const DEVELOPMENT_CLIENTS = /^(?:hardhat|ganache|ethereumjs testrpc|anvil)/i;

export interface FinalityOptions {
  /** Blocks after which a block is final, where the tag is refused or `depthIsSet`. */
  readonly finalityDepth: number;
  /** The operator set the depth: the node's tag is not asked. */
  readonly depthIsSet: boolean;
  /** Hears once of each endpoint whose word on finality is not taken, and how many blocks deep a block is final instead. */
  readonly onDevelopmentNode?: (endpoint: string, client: string, depth: number) => void;
}

export class Finality {
  readonly #options: FinalityOptions;
  readonly #pool: EndpointPool;
  /** The tag is not asked for in this many looks from now on. */
  #looksWithoutTag = 0;
  /** Refusals of the tag in a row. */
  #tagRefusals = 0;
  /** One question for each endpoint, however many looks begin before it is answered. */
  readonly #developmentNodes = new Map<Endpoint, Promise<boolean>>();

  constructor(pool: EndpointPool, options: FinalityOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** Both, in one round trip where the node knows the tag. @throws AppError `chain_unavailable` */
  async tips(): Promise<Tips> {
    const tagged = await this.#byTag(async (endpoint) => {
      const [head, finalized] = await Promise.all([newestBy(endpoint), this.#finalBy(endpoint)]);
      return { head, finalized, shownBy: endpoint };
    });
    const head = tagged?.head ?? (await this.#pool.run(newestBy));
    const finalized = tagged?.finalized;
    const isBelieved = finalized !== undefined && (await this.#isBelieved(finalized, head, tagged?.shownBy));
    return isBelieved ? { ...tagged, head, finalized } : { head, finalized: await this.#byDepth(head) };
  }

  /** The newest final block of a chain with this head. @throws AppError `chain_unavailable` */
  async finalized(head: BlockHeader): Promise<BlockHeader> {
    const tagged = await this.#byTag(async (by) => ({ header: await this.#finalBy(by), by }));
    const header = tagged?.header;
    return header !== undefined && (await this.#isBelieved(header, head, tagged?.by)) ? header : this.#byDepth(head);
  }

  /**
   * Whether a block may be taken for final because the endpoint says so. Hardhat and Ganache call their newest block final
   * and take it back with the next `evm_revert`. Chains with instant finality call it final, too, and keep it.
   */
  async #isBelieved(finalized: BlockHeader, head: BlockHeader, by: Endpoint | undefined): Promise<boolean> {
    if (finalized.number > head.number) return false;
    return finalized.number < head.number || by === undefined || !(await this.#isDevelopmentNode(by));
  }

  #isDevelopmentNode(endpoint: Endpoint): Promise<boolean> {
    const known = this.#developmentNodes.get(endpoint);
    if (known !== undefined) return known;
    const asked = this.#askClient(endpoint);
    this.#developmentNodes.set(endpoint, asked);
    asked.catch(() => this.#developmentNodes.delete(endpoint));
    return asked;
  }

  async #askClient(endpoint: Endpoint): Promise<boolean> {
    let client = "";
    try {
      client = String(await endpoint.request("web3_clientVersion", []));
    } catch (error) {
      if (error instanceof RpcError && error.retryable && !isUnknownRefusal(error)) throw error;
    }
    const isDevelopment = DEVELOPMENT_CLIENTS.test(client);
    const { onDevelopmentNode, finalityDepth } = this.#options;
    if (isDevelopment) onDevelopmentNode?.(endpoint.label, (client.split("/")[0] ?? "").slice(0, 40), finalityDepth);
    return isDevelopment;
  }

  /** The block with the finalised tag. @throws RpcError, `unsupported` also where the endpoint's own words hide that */
  async #finalBy(endpoint: Endpoint): Promise<BlockHeader | undefined> {
    try {
      const header = await headerBy(endpoint, "finalized");
      this.#tagRefusals = 0;
      return header;
    } catch (error) {
      if (!isUnknownRefusal(error) || ++this.#tagRefusals < TAG_REFUSALS) throw error;
      await newestBy(endpoint);
      throw new RpcError("unsupported", error.message, { meta: error.meta, cause: error });
    }
  }

  /** Runs a request for the block with the finalised tag; undefined where it is refused, or the operator's depth counts. */
  async #byTag<T>(ask: (endpoint: Endpoint) => Promise<T>): Promise<T | undefined> {
    if (this.#options.depthIsSet || this.#looksWithoutTag-- > 0) return undefined;
    try {
      // The only endpoint that knows the tag may rest for being on a branch that lost: it is not asked for the tag's sake.
      return await this.#pool.run(ask, { failover: "none" });
    } catch (error) {
      if (!(error instanceof RpcError && error.kind === "unsupported")) throw error;
      this.#looksWithoutTag = LOOKS_WITHOUT_TAG;
      return undefined;
    }
  }

  /** The block so far below the head that the chain's depth, or the operator's, makes it final. */
  async #byDepth(head: BlockHeader): Promise<BlockHeader> {
    const { finalityDepth } = this.#options;
    const number = Math.max(0, head.number - finalityDepth);
    if (number === head.number) return head;
    // The endpoint must be as far as the head that the depth is counted from: its own final block may be another.
    const header = await this.#pool.run(async (endpoint) => {
      const [newest, deep] = await Promise.all([newestBy(endpoint), headerBy(endpoint, number)]);
      if (newest.number < head.number) {
        throw new RpcError("transient", "the endpoint lags behind the head", { meta: { block: head.number } });
      }
      return deep;
    });
    if (header === undefined) throw new RpcError("transient", "the node lost a block it had", { meta: { number } });
    return header;
  }
}
