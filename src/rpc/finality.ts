/**
 * Finds the newest block and the newest final block. Uses the node's `finalized` tag, or a fixed depth below the head:
 * if the operator set a depth, if the node does not know the tag, or if a development node finalizes its head.
 */
import type { Endpoint } from "./endpoint.ts";
import { isUnknownRefusal, RpcError } from "./errors.ts";
import { headerBy, newestBy } from "./header.ts";
import type { EndpointPool } from "./pool.ts";
import type { BlockHeader, Tips } from "./port.ts";

/** Polls without the tag after a refusal. A node that just started has no final block and refuses in the same words. */
const LOOKS_WITHOUT_TAG = 100;
/** After this many refusals of the tag in a row, with any message, a node that shows its newest block lacks the tag. */
const TAG_REFUSALS = 3;
/** Client names at the start of a development node's `web3_clientVersion`. */
const DEVELOPMENT_CLIENTS = /^(?:hardhat|ganache|ethereumjs testrpc|anvil)/i;

export interface FinalityOptions {
  /** Depth in blocks at which a block counts as final, if the tag is refused or `depthIsSet`. */
  readonly finalityDepth: number;
  /** True if the operator set the depth: the tag is not requested. */
  readonly depthIsSet: boolean;
  /** Called once per endpoint whose `finalized` tag is ignored, with the depth used instead. */
  readonly onDevelopmentNode?: (endpoint: string, client: string, depth: number) => void;
}

export class Finality {
  readonly #options: FinalityOptions;
  readonly #pool: EndpointPool;
  /** Remaining polls without the tag. */
  #looksWithoutTag = 0;
  /** Refusals of the tag in a row. */
  #tagRefusals = 0;
  /** One request per endpoint, shared by all polls that start before its answer. */
  readonly #developmentNodes = new Map<Endpoint, Promise<boolean>>();

  constructor(pool: EndpointPool, options: FinalityOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** Returns both, in one round trip if the node knows the tag. @throws AppError `chain_unavailable` */
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

  /** Returns the newest final block below this head. @throws AppError `chain_unavailable` */
  async finalized(head: BlockHeader): Promise<BlockHeader> {
    const tagged = await this.#byTag(async (by) => ({ header: await this.#finalBy(by), by }));
    const header = tagged?.header;
    return header !== undefined && (await this.#isBelieved(header, head, tagged?.by)) ? header : this.#byDepth(head);
  }

  /**
   * True if the endpoint's final block can be trusted. Hardhat and Ganache finalize their newest block and take it back
   * with the next `evm_revert`. Chains with instant finality also finalize their newest block, and keep it.
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

  /** Returns the `finalized` block. @throws RpcError, of kind `unsupported` also after repeated unknown refusals */
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

  /** Runs a request for the `finalized` block. Undefined if the tag is refused, or the operator set a depth. */
  async #byTag<T>(ask: (endpoint: Endpoint) => Promise<T>): Promise<T | undefined> {
    if (this.#options.depthIsSet || this.#looksWithoutTag-- > 0) return undefined;
    try {
      // Failover is off. The only endpoint that knows the tag may be benched because it is on an orphaned branch.
      return await this.#pool.run(ask, { failover: "none" });
    } catch (error) {
      if (!(error instanceof RpcError && error.kind === "unsupported")) throw error;
      this.#looksWithoutTag = LOOKS_WITHOUT_TAG;
      return undefined;
    }
  }

  /** Returns the block at the configured depth below the head. */
  async #byDepth(head: BlockHeader): Promise<BlockHeader> {
    const { finalityDepth } = this.#options;
    const number = Math.max(0, head.number - finalityDepth);
    if (number === head.number) return head;
    // An endpoint that is behind the head may have another block at this number, so its head is checked as well.
    const header = await this.#pool.run(async (endpoint) => {
      const [newest, deep] = await Promise.all([newestBy(endpoint), headerBy(endpoint, number)]);
      if (newest.number < head.number) {
        throw new RpcError("transient", "the endpoint lags behind the head", { meta: { block: head.number } });
      }
      return deep;
    });
    if (header === undefined)
      throw new RpcError("transient", "the node lacks a block below its head", { meta: { number } });
    return header;
  }
}
