/**
 * Development nodes other than anvil: Hardhat 2, Hardhat 3 and Ganache, each in a separate process on a free port,
 * behind an `Anvil` handle, so that the scripts of local-chain can prepare their chains. In: the folder where
 * test/long/nodes is installed. Out: an `Anvil` handle that can send only from the node's own accounts.
 */
import { toBeHex } from "ethers";
import { type Anvil, AnvilError, quantity, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import type { Receipt } from "../../../scripts/local-chain/contracts.ts";
import { guardChild } from "../../../scripts/local-chain/guard.ts";

export const NODES = ["anvil", "hardhat 2", "hardhat 3", "ganache"] as const;
export type NodeName = (typeof NODES)[number];

/**
 * Sets the genesis a day back, so that the follower considers every block overdue, however fast the node's clock runs.
 */
const AGE_MS = 86_400_000;
/** Gas limit per transaction: below the 2^24 that newer forks allow, and above the cost of creating a factory. */
const GAS = 16_000_000;

const HARDHAT = ["node", "--hostname", "127.0.0.1", "--port", "0", "--config"];
const COMMANDS: Record<Exclude<NodeName, "anvil">, readonly string[]> = {
  "hardhat 2": ["node_modules/hardhat2/internal/cli/bootstrap.js", ...HARDHAT, "hardhat2.config.cjs"],
  "hardhat 3": ["node_modules/hardhat/dist/src/cli.js", ...HARDHAT, "hardhat3.config.js"],
  ganache: ["ganache.cjs"],
};

type Send = (method: string, params?: readonly unknown[]) => Promise<unknown>;

/** Starts a node and resolves when it listens. The node ends with this process in any case. */
export async function startNode(name: NodeName, folder: string): Promise<Anvil> {
  const born = Date.now() - AGE_MS;
  if (name === "anvil") return startAnvil({ genesisTimestamp: Math.floor(born / 1_000) });
  const child = Bun.spawn([process.execPath, ...COMMANDS[name]], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      GENESIS_TIME: new Date(born).toISOString(),
      // Hardhat 2 is installed under an alias here and otherwise refuses to run as not local.
      HARDHAT_EXPERIMENTAL_ALLOW_NON_LOCAL_INSTALLATION: "true",
      HARDHAT_DISABLE_TELEMETRY_PROMPT: "true",
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const errors = new Response(child.stderr).text();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
  };
  const port = await listeningPort(child.stdout).catch(async (cause: unknown) => {
    await stop();
    throw new Error(`${name} did not start: ${await errors}`, { cause });
  });
  const url = `http://127.0.0.1:${port}`;
  const send = translated(name, (method, params = []) => call(url, method, params));
  const accounts = (await send("eth_accounts")) as string[];
  return {
    url,
    wsUrl: `ws://127.0.0.1:${port}`,
    port,
    pid: child.pid,
    chainId: 1,
    accounts: accounts.map((account) => account.toLowerCase()),
    send,
    mine: async (count = 1) => {
      await send("anvil_mine", [quantity(count)]);
    },
    stop,
  };
}

const GANACHE: Record<string, string> = {
  anvil_setBalance: "evm_setAccountBalance",
  anvil_setCode: "evm_setAccountCode",
};

/** Translates anvil's methods into those of a node. */
function translated(name: NodeName, send: Send): Send {
  const sendTransaction = (params: readonly unknown[]) => {
    // Uses the node's own gas price, because these nodes refuse zero.
    const { gasPrice: _, ...transaction } = params[0] as Record<string, unknown>;
    return send("eth_sendTransaction", [{ ...transaction, gas: quantity(GAS) }]);
  };
  return async (method, params = []) => {
    if (method === "eth_sendTransaction") return sendTransaction(params);
    if (method === "eth_sendTransactionSync") {
      const hash = await sendTransaction(params);
      const receipt = (await send("eth_getTransactionReceipt", [hash])) as Receipt | null;
      if (receipt === null) throw new Error(`${name} did not mine ${hash} at once`);
      return receipt;
    }
    if (name !== "ganache") return send(method.replace(/^anvil_/, "hardhat_"), params);
    if (method === "anvil_mine") return send("evm_mine", [{ blocks: Number(params[0]) }]);
    if (method === "evm_setAutomine") return send(params[0] === true ? "miner_start" : "miner_stop");
    if (method === "anvil_setStorageAt") {
      const [address, slot, value] = params;
      return send("evm_setAccountStorageAt", [address, toBeHex(String(slot), 32), value]);
    }
    return send(GANACHE[method] ?? method, params);
  };
}

/** Resolves with the port in the node's output, then keeps draining the output in the background. */
function listeningPort(stdout: ReadableStream<Uint8Array>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const decoder = new TextDecoder();
  let seen = "";
  const drain = async () => {
    for await (const chunk of stdout) {
      seen = (seen + decoder.decode(chunk, { stream: true })).slice(-4_096);
      const port = /Started .*http:\/\/127\.0\.0\.1:(\d+)/.exec(seen)?.[1];
      if (port !== undefined) resolve(Number(port));
    }
    reject(new Error(`the node ended before it listened: ${seen}`));
  };
  drain().catch(reject);
  return promise;
}

async function call(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    // Node's servers close a connection after five idle seconds, perhaps in the moment in which it is used again.
    keepalive: false,
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as {
    result?: unknown;
    error?: { code: number; message: string; data?: unknown };
  };
  if (error !== undefined) throw new AnvilError(method, error);
  return result;
}
