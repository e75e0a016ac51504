/**
 * A local EVM node for tests and demos: starts the platform's anvil binary on a free port, speaks JSON-RPC to it and
 * stops it. In: chain options. Out: an `Anvil` handle. It deploys nothing: see contracts.ts and mainnet.ts.
 */
import { chmodSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guardChild } from "./guard.ts";

export interface AnvilOptions {
  /** Default 1, so that the registry of Ethereum mainnet applies. */
  chainId?: number;
  /** `finalized` is the head less two epochs. Anvil's default is 32 slots, so head - 64; with 1 it is head - 2. */
  slotsInAnEpoch?: number;
  /** Seconds between blocks. Without it each transaction makes a block of its own at once. */
  blockTime?: number;
  /** For instance "shanghai", the last fork in which selfdestruct removes code. */
  hardfork?: string;
  /** Number of unlocked, funded accounts. Default 10. */
  accounts?: number;
  /** Timestamp of block 0 in seconds. Later blocks advance from it at the speed of real time. */
  genesisTimestamp?: number;
  extraArgs?: string[];
}

export interface Anvil {
  readonly url: string;
  readonly wsUrl: string;
  readonly port: number;
  readonly pid: number;
  readonly chainId: number;
  /** The unlocked accounts, lower case, in anvil's order. */
  readonly accounts: readonly string[];
  /** One JSON-RPC call. Throws `AnvilError` when the node answers with an error. */
  send(method: string, params?: readonly unknown[]): Promise<unknown>;
  /** Mines `count` blocks (default 1). */
  mine(count?: number): Promise<void>;
  /** Ends the process and resolves when it is gone. May be called twice. */
  stop(): Promise<void>;
}

/**
 * Gas for each transaction: a twentieth of a block, so twenty always fit whatever they use, and far more usually do.
 */
export const TRANSACTION_GAS = 500_000_000;

/** The node refused a call. */
export class AnvilError extends Error {
  override readonly name = "AnvilError";
  readonly method: string;
  readonly code: number;
  readonly data: unknown;

  constructor(method: string, error: { code: number; message: string; data?: unknown }) {
    super(`${method}: ${error.message} (code ${error.code})`);
    this.method = method;
    this.code = error.code;
    this.data = error.data;
  }
}

/** Starts anvil and resolves once it listens. It dies with this process, however this process ends. */
export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  const chainId = options.chainId ?? 1;
  // Old states, some hundred megabytes: by default they stay under the user's home when the node is killed.
  const states = mkdtempSync(join(tmpdir(), "anvil-"));
  const child = Bun.spawn([anvilBinary(), ...anvilArguments(chainId, options), "--cache-path", states], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL", removeAfterwards: states });
  const removeStates = () => rmSync(states, { recursive: true, force: true });
  // Both pipes are read to their end: a full pipe would block the node.
  const errors = new Response(child.stderr).text();
  const port = await listeningPort(child.stdout).catch(async (cause: unknown) => {
    child.kill("SIGKILL");
    guard.dismiss();
    removeStates();
    throw new Error(`anvil did not start: ${(await errors).trim()}`, { cause });
  });

  const url = `http://127.0.0.1:${port}`;
  const send = (method: string, params: readonly unknown[] = []) => call(url, method, params);
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
    removeStates();
  };
  const accounts = (await send("eth_accounts")) as string[];
  return {
    url,
    wsUrl: `ws://127.0.0.1:${port}`,
    port,
    pid: child.pid,
    chainId,
    accounts: accounts.map((account) => account.toLowerCase()),
    send,
    mine: async (count = 1) => {
      await send("anvil_mine", [quantity(count)]);
    },
    stop,
  };
}

/**
 * Runs `fill`, which sends transactions without awaiting their receipts, and mines everything it sent as one block, in
 * the order sent. For chains that mine on demand (no `blockTime`). Resolves with what `fill` returned.
 */
export async function inOneBlock<T>(anvil: Anvil, fill: () => Promise<T>): Promise<T> {
  await anvil.send("evm_setAutomine", [false]);
  try {
    const result = await fill();
    await anvil.mine();
    return result;
  } finally {
    await anvil.send("evm_setAutomine", [true]);
  }
}

/** A transaction of a replacement block, sent from any address. `prepare` of contracts.ts makes the call. */
export interface ReplacementTransaction {
  /** 0 is the first replaced block. */
  block: number;
  from: string;
  to: string;
  data?: string;
  value?: bigint;
}

/**
 * Replaces the last `depth` blocks by as many others, so that the height stays. Anvil drops the transactions of the
 * replaced blocks for good (state and nonces roll back, nothing returns to the pool); the new blocks hold
 * `replacements` and nothing else. The new blocks get another fee recipient, because anvil rebuilds an empty block with
 * the same time to the very same hash, which would be no reorg at all.
 */
export async function reorg(
  anvil: Anvil,
  depth: number,
  replacements: readonly ReplacementTransaction[] = [],
): Promise<void> {
  const head = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string };
  await anvil.send("anvil_setCoinbase", [head.hash.slice(0, 42)]);
  // Without a price, anvil would silently leave the transaction out.
  const pairs = replacements.map(({ block, value = 0n, ...call }) => [
    { ...call, value: quantity(value), gas: quantity(TRANSACTION_GAS), gasPrice: "0x0" },
    block,
  ]);
  await anvil.send("anvil_reorg", [depth, pairs]);

  const height = Number(await anvil.send("eth_blockNumber"));
  let mined = 0;
  for (let number = height - depth + 1; number <= height && replacements.length > 0; number++) {
    mined += Number(await anvil.send("eth_getBlockTransactionCountByNumber", [quantity(number)]));
  }
  if (mined !== replacements.length) throw new Error(`${mined} of ${replacements.length} replacements were mined`);
}

/** Timestamp of the latest block in seconds. */
export async function latestTimestamp(anvil: Anvil): Promise<number> {
  const head = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
  return Number(head.timestamp);
}

/** Sets the timestamp of the next block; time goes on from there. It may not be less than the latest block's. */
export async function setNextTimestamp(anvil: Anvil, seconds: number): Promise<void> {
  await anvil.send("evm_setNextBlockTimestamp", [seconds]);
}

/** From now on each block is `seconds` younger than the one before it; undefined returns to the clock. */
export async function setTimestampInterval(anvil: Anvil, seconds: number | undefined): Promise<void> {
  if (seconds === undefined) await anvil.send("anvil_removeBlockTimestampInterval");
  else await anvil.send("anvil_setBlockTimestampInterval", [seconds]);
}

/** Writes a number the way JSON-RPC quantities are written. */
export function quantity(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

function anvilArguments(chainId: number, options: AnvilOptions): string[] {
  const args = ["--port", "0", "--host", "127.0.0.1", "--chain-id", String(chainId)];
  // First come, first mined; gas is free and practically unbounded, so that one block can hold thousands of logs.
  args.push("--order", "fifo", "--block-base-fee-per-gas", "0", "--gas-limit", String(20 * TRANSACTION_GAS));
  args.push("--disable-code-size-limit", "--no-request-size-limit", "--accounts", String(options.accounts ?? 10));
  // Any address may send, and for nothing, so a test can play an owner that has neither key nor ether.
  args.push("--auto-impersonate", "--disable-min-priority-fee");
  if (options.slotsInAnEpoch !== undefined) args.push("--slots-in-an-epoch", String(options.slotsInAnEpoch));
  if (options.blockTime !== undefined) args.push("--block-time", String(options.blockTime));
  if (options.hardfork !== undefined) args.push("--hardfork", options.hardfork);
  if (options.genesisTimestamp !== undefined) args.push("--timestamp", String(options.genesisTimestamp));
  return [...args, ...(options.extraArgs ?? [])];
}

/**
 * The platform package's own binary. The `anvil` of `.bin` is a wrapper script: killing it would leave the node
 * running.
 */
function anvilBinary(): string {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const file = `@foundry-rs/anvil-${process.platform}-${arch}/bin/anvil${process.platform === "win32" ? ".exe" : ""}`;
  const path = Bun.resolveSync(file, import.meta.dir);
  if ((statSync(path).mode & 0o111) === 0) chmodSync(path, 0o755);
  return path;
}

/** Resolves with the port that anvil reports, then goes on draining its output in the background. */
function listeningPort(stdout: ReadableStream<Uint8Array>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const decoder = new TextDecoder();
  let seen = "";
  let found = false;
  const drain = async () => {
    for await (const chunk of stdout) {
      if (found) continue;
      seen += decoder.decode(chunk, { stream: true });
      const port = /Listening on [^\s]*:(\d+)/.exec(seen)?.[1];
      if (port === undefined) continue;
      found = true;
      resolve(Number(port));
    }
    reject(new Error("anvil ended before it listened"));
  };
  drain().catch(reject);
  return promise;
}

async function call(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const answer = (await response.json()) as {
    result?: unknown;
    error?: { code: number; message: string; data?: unknown };
  };
  if (answer.error !== undefined) throw new AnvilError(method, answer.error);
  return answer.result;
}
