/**
 * Makes proofs of a chain's state. One endpoint is asked for everything, in two round trips as a rule: the header, the
 * calls and their access lists; then the accounts, slots and codes that these name. A run of the calls on what came says
 * what is still missing, and ends with the document, which is verified before it is given out.
 */
import { Budget } from "../core/budget.ts";
import { AppError } from "../core/errors.ts";
import { type Address, quantity } from "../core/hex.ts";
import type { CallResult, Endpoint } from "../rpc/port.ts";
import { callOn, requestParsed } from "../rpc/reading/one-call.ts";
import { type RpcError, rpcErrorOf } from "../rpc/rpc-errors.ts";
import { accessListOf, GatheredState, MAX_SLOTS } from "./gathered-state.ts";
import {
  cantProve,
  chainIdOf,
  isLasting,
  type ProofBlock,
  proofHeader,
  TooLongToProve,
  type WireHeader,
} from "./proof-header.ts";
import type { WantedState } from "./run-worker.ts";
import type { ProofSources } from "./transfer-prover.ts";
import { CALL_GAS, type ProvenCall } from "./verifier/claim.ts";
import { callsFor, type Stated } from "./verifier/claims.ts";
import type { StateDocument } from "./verifier/document.ts";
import { ProofRefused } from "./verifier/refusal.ts";

/** Most runs of one proof. Each finds 64 slots more, if the node names none. */
const MAX_ROUNDS = 32;
/** Looks for the oldest block of which an endpoint has the state. */
const MAX_LOOKS = 8;

/** What is to be proven, at a block. */
export interface ProofRequest extends ProofBlock, Pick<Stated, "kind" | "subject"> {
  /** True if the node is not asked for the results of the calls, which must otherwise be those of the run. */
  readonly isOfStateAlone?: true;
}

/** What to do where the state is gone, for a token. */
const OTHER_ROAD = "; proves=transfer proves the token's last transfer from receipts instead";

export class Prover {
  readonly #options: ProofSources;

  constructor(options: ProofSources) {
    this.#options = options;
  }

  /**
   * @throws Refusal `state_unavailable` if no endpoint has the state or the methods, or the state can't be proven by this
   *   block's header; AppError `chain_unavailable` if no endpoint answers
   */
  async prove(asked: ProofRequest): Promise<StateDocument> {
    const { reader } = this.#options;
    const { block } = asked;
    try {
      return await reader.onOneEndpoint((endpoint) => this.#proveOn(endpoint, asked), { block });
    } catch (error) {
      const cause = rpcErrorOf(error);
      if (cause === undefined || !isLasting(cause)) throw error;
      throw await this.#unavailable(asked, cause);
    }
  }

  async #proveOn(endpoint: Endpoint, asked: ProofRequest): Promise<StateDocument> {
    const { chain, thread } = this.#options;
    const tag = quantity(asked.block);
    const calls = subjectCalls(asked);
    const [chainId, wire, said, ...lists] = await Promise.all([
      chainIdOf(chain, endpoint),
      requestParsed(endpoint, "eth_getBlockByNumber", [tag, false], (answer) => answer as WireHeader),
      asked.isOfStateAlone === true
        ? undefined
        : Promise.all(calls.map((call) => callOn(endpoint, call, tag, { gas: CALL_GAS }))),
      ...calls.filter(({ isProbe }) => isProbe !== true).map((call) => accessListOf(endpoint, call, tag)),
    ]);
    const header = proofHeader(wire, asked, { chain, endpoint });
    const gathered = new GatheredState(endpoint, tag);
    let wanted: readonly WantedState[] = [
      ...calls.map(({ to }) => ({ address: to })),
      ...lists.flatMap((list) => list ?? []),
    ];
    for (let round = 0; round < MAX_ROUNDS; round++) {
      if (gathered.isTooMuch(wanted)) throw cantProve(`the call reads more than ${MAX_SLOTS} slots, or many accounts`);
      await gathered.fetch(wanted);
      const { kind, subject } = asked;
      const reply = await thread.run({
        ...{ stated: { kind, subject, header, chainId } },
        ...{ nodes: [...gathered.nodes], codes: gathered.codes },
      });
      Budget.current?.signal?.throwIfAborted();
      if ("refused" in reply) throw reply.isLate ? new TooLongToProve(reply.refused) : cantProve(reply.refused);
      if ("document" in reply) return agreed(reply.document as StateDocument, said);
      if (gathered.hasAsked(reply.missing)) {
        throw cantProve("what the node calls a proof of this block's state does not lead there from its state root");
      }
      wanted = reply.missing;
    }
    throw cantProve("the node names no access list, and the call reads more slots than can be found without it");
  }

  /** The refusal for a block of which the endpoints have no state, with what they have. @throws AppError where they can't tell */
  async #unavailable({ block, kind, subject }: ProofRequest, cause: RpcError): Promise<AppError> {
    const [{ to }] = subjectCalls({ kind, subject }) as [ProvenCall];
    const head = (await this.#options.reader.head()).number;
    if (!(await this.#hasState(to, head))) {
      const text = "no endpoint of this chain answers eth_getProof, which a proof needs";
      return cantProve(kind === "price" ? text : `${text}${OTHER_ROAD}`, { block });
    }
    // An endpoint that lags has the state a moment later.
    if (block >= head || (await this.#hasState(to, block))) {
      const text = `the endpoints give no proof of block ${block} now: ask again`;
      return new AppError(text, { code: "chain_unavailable", retryable: true, cause });
    }
    let [gone, there] = [block, head];
    for (let look = 0; look < MAX_LOOKS && there - gone > 1; look++) {
      const middle = look === 0 ? Math.max(gone + 1, head - 127) : gone + Math.floor((there - gone) / 2);
      if (await this.#hasState(to, middle)) there = middle;
      else gone = middle;
    }
    const text = `the endpoints have no state of block ${block} to prove; they have it from about block ${there} on`;
    return cantProve(kind === "price" ? text : `${text}${OTHER_ROAD}`, { block, from: there, to: head });
  }

  /** @throws AppError if the endpoints don't say: they are busy, or can't be reached */
  async #hasState(address: Address, block: number): Promise<boolean> {
    const ask = (endpoint: Endpoint) => endpoint.request("eth_getProof", [address, [], quantity(block)]);
    try {
      await this.#options.reader.onOneEndpoint(ask, { block });
      return true;
    } catch (error) {
      const cause = rpcErrorOf(error);
      if (cause === undefined || !isLasting(cause)) throw error;
      return false;
    }
  }
}

function subjectCalls(asked: Pick<Stated, "kind" | "subject">): readonly ProvenCall[] {
  try {
    return callsFor(asked);
  } catch (error) {
    throw error instanceof ProofRefused ? cantProve(error.message) : error;
  }
}

/** The document, if the node says the same of each call. A chain may run a contract by rules that are not known here. */
function agreed(document: StateDocument, said: readonly CallResult[] | undefined): StateDocument {
  if (said === undefined) return document;
  for (const [at, { to, ok, result }] of document.calls.entries()) {
    const node = said[at];
    if (node?.ok === ok && (!ok || node.data.toLowerCase() === result)) continue;
    throw cantProve(`the node gives another result for a call of ${to} than a run of its code on the proven state`);
  }
  return document;
}
