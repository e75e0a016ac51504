/**
 * Simulates transactions in a row by `eth_simulateV1`, on the endpoints that have the method. An endpoint without it is
 * well otherwise: its refusal is remembered, and fails nothing else.
 */
import { withTimeout } from "../../core/clock.ts";
import { quantity } from "../../core/hex.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import type { CallResult, Endpoint, SimulatedBlock, SimulatedTransaction } from "../port.ts";
import { isUnknownRefusal, RpcError } from "../rpc-errors.ts";
import { bytesIn, callOn, requestParsed } from "./one-call.ts";

const METHOD = "eth_simulateV1";
/** A caller that gets no answer at this block can read at the newest one. */
const ATTEMPTS = 2;
/** An endpoint without the method is asked again after this long, in ms. A balancer may have nodes that have it. */
const WITHOUT_METHOD_MS = 600_000;
/** Longest time for a simulation with its retry, in ms: a reader waits for it. */
const LONGEST_MS = 5_000;
/** Wei for a unit of gas, and the base fee of simulated blocks. Tokens can tell a price of 0 from a real transaction. */
const GAS_PRICE = quantity(1_000_000_000);

export class Simulations {
  readonly #pool: EndpointPool;
  /** Monotonic times until which endpoints count as lacking the method. */
  readonly #lacking = new WeakMap<Endpoint, number>();

  constructor(pool: EndpointPool) {
    this.#pool = pool;
  }

  /** Undefined if no endpoint ran the transactions. @throws RpcError `late` after five seconds */
  async run(blocks: readonly SimulatedBlock[], block: number): Promise<readonly CallResult[] | undefined> {
    const ask = (endpoint: Endpoint) => this.#runOn(endpoint, blocks, quantity(block));
    const run = this.#pool.run(ask, { attempts: ATTEMPTS, meta: { block } }).catch((error: unknown) => {
      if (error instanceof RpcError && error.kind === "unsupported") return undefined;
      throw error;
    });
    const answer = await withTimeout(this.#pool.clock, LONGEST_MS, run);
    if (answer === undefined) throw new RpcError("late", "the simulation took too long", { meta: { block } });
    return answer.value;
  }

  async #runOn(endpoint: Endpoint, blocks: readonly SimulatedBlock[], tag: string): Promise<readonly CallResult[]> {
    const now = this.#pool.clock.monotonic();
    if ((this.#lacking.get(endpoint) ?? now) > now) throw notRun(endpoint);
    const results = await simulateOn(endpoint, blocks, tag);
    if (results !== undefined) return results;
    // It refuses the method, or these transactions.
    const [block] = blocks;
    const { to } = block!.transactions[0]!;
    const accounts = { [to]: { balance: 10n ** 18n } };
    const smallest = { ...block!, accounts, transactions: [{ from: to, to, data: "0x", gas: 30_000 }] };
    const [trial] = await Promise.all([
      simulateOn(endpoint, [smallest], tag),
      // Its failure is the endpoint's, whatever it says about the method.
      callOn(endpoint, { to, data: "0x" }, tag),
    ]);
    if (trial === undefined) this.#lacking.set(endpoint, now + WITHOUT_METHOD_MS);
    throw notRun(endpoint);
  }
}

const notRun = ({ label: endpoint }: Endpoint): RpcError =>
  new RpcError("unsupported", "the endpoint did not simulate the transactions", { meta: { endpoint } });

/** Undefined if the endpoint refuses, or answers without the outcome of each transaction. */
async function simulateOn(
  endpoint: Endpoint,
  blocks: readonly SimulatedBlock[],
  tag: string,
): Promise<readonly CallResult[] | undefined> {
  const blockStateCalls = blocks.map(({ number, timestamp, accounts = {}, transactions }) => ({
    blockOverrides: { number: quantity(number), time: quantity(timestamp), baseFeePerGas: GAS_PRICE },
    stateOverrides: Object.fromEntries(
      Object.entries(accounts).map(([account, { code, balance }]) => [
        account,
        { ...(code && { code }), ...(balance && { balance: quantity(balance) }) },
      ]),
    ),
    calls: transactions.map(transactionOf),
  }));
  const options = { validation: false, traceTransfers: false, returnFullTransactions: false };
  try {
    const answer = await requestParsed(endpoint, METHOD, [{ blockStateCalls, ...options }, tag], (said) => said);
    const results = outcomesIn(answer);
    return results?.length === blocks.flatMap(({ transactions }) => transactions).length ? results : undefined;
  } catch (error) {
    // Words about its state may be about its plan.
    const isRefusal = error instanceof RpcError && error.kind === "state_unavailable";
    if (isRefusal || isUnknownRefusal(error)) return undefined;
    throw error;
  }
}

const transactionOf = ({ from, to, data, value, gas }: SimulatedTransaction) => ({
  ...{ from, to, input: data, gas: quantity(gas), gasPrice: GAS_PRICE },
  ...(value && { value: quantity(value) }),
});

/** The outcomes of all transactions. A node may fill a gap between blocks with empty ones. */
function outcomesIn(answer: unknown): readonly CallResult[] | undefined {
  try {
    const blocks = answer as readonly { readonly calls: readonly SimulatedCall[] }[];
    return blocks.flatMap(({ calls }) => calls.map(outcomeIn));
  } catch {
    return undefined;
  }
}

interface SimulatedCall {
  readonly status: unknown;
  readonly returnData?: unknown;
  readonly error?: { readonly data?: unknown };
}

/** Some nodes put revert data beside the error, some into it. @throws TypeError */
function outcomeIn({ status, returnData, error }: SimulatedCall): CallResult {
  const ok = BigInt(bytesIn(status)) === 1n;
  const inError = typeof error?.data === "string" && error.data !== "" ? error.data : undefined;
  return { ok, data: bytesIn(ok ? returnData : (inError ?? returnData ?? "0x")).toLowerCase() };
}
