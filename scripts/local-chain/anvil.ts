/**
 * A local EVM node for tests and demos: starts the platform's anvil binary on a free port, speaks JSON-RPC to it and
 * stops it. In: chain options. Out: an `Anvil` handle. It deploys nothing: see contracts.ts and mainnet.ts.
 */
import { chmodSync, statSync } from "node:fs";
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
  const child = Bun.spawn([anvilBinary(), ...anvilArguments(chainId, options)], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  // Both pipes are read to their end: a full pipe would block the node.
  const errors = new Response(child.stderr).text();
  const port = await listeningPort(child.stdout).catch(async (cause: unknown) => {
    child.kill("SIGKILL");
    guard.dismiss();
    throw new Error(`anvil did not start: ${(await errors).trim()}`, { cause });
  });

  const url = `http://127.0.0.1:${port}`;
  const send = (method: string, params: readonly unknown[] = []) => call(url, method, params);
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
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

/** Writes a number the way JSON-RPC quantities are written. */
export function quantity(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

function anvilArguments(chainId: number, options: AnvilOptions): string[] {
  const args = ["--port", "0", "--host", "127.0.0.1", "--chain-id", String(chainId)];
  // First come, first mined; gas is free and practically unbounded, so that one block can hold thousands of logs.
  args.push("--order", "fifo", "--gas-limit", "10000000000", "--block-base-fee-per-gas", "0");
  args.push("--disable-code-size-limit", "--no-request-size-limit", "--accounts", String(options.accounts ?? 10));
  if (options.slotsInAnEpoch !== undefined) args.push("--slots-in-an-epoch", String(options.slotsInAnEpoch));
  if (options.blockTime !== undefined) args.push("--block-time", String(options.blockTime));
  if (options.hardfork !== undefined) args.push("--hardfork", options.hardfork);
  if (options.genesisTimestamp !== undefined) args.push("--timestamp", String(options.genesisTimestamp));
  return [...args, ...(options.extraArgs ?? [])];
}

/**
 * The platform package's own binary. The `anvil` of `.bin` is a wrapper script: killing it would leave the node running.
 */
function anvilBinary(): string {
  const os = process.platform === "win32" ? "win32" : process.platform;
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const file = `@foundry-rs/anvil-${os}-${arch}/bin/anvil${process.platform === "win32" ? ".exe" : ""}`;
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
