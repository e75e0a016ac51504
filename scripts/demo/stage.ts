/**
 * Where the demo plays: a local chain with a market and collections, and the service in a process of its own. The first
 * collection and the demo token have the addresses of the examples in the API's documents, so that those work here.
 */
import { join } from "node:path";
import WebSocket from "ws";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "../../src/core/examples.ts";
import { type Anvil, startAnvil } from "../local-chain/anvil.ts";
import { type Collections, seedCollections } from "../local-chain/collections.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { guardChild } from "../local-chain/guard.ts";
import { placeMainnet } from "../local-chain/mainnet.ts";
import { type Market, seedMarket } from "../local-chain/market.ts";

const MARKET_HOURS = 27;
/** The contracts that the chain needs, in the order in which it needs them. */
const CONTRACTS = ["Multicall", "V3Operator", "TestToken", "DrawnNft", "BatchNft", "MultiToken"];

export interface Stage {
  readonly anvil: Anvil;
  readonly market: Market;
  readonly collections: Collections;
}

/**
 * Starts the chain, with a day of trades that ends now.
 * @param onStart called with the node before the chain has its history
 * @param progress called with the present step
 */
export async function setStage(onStart: (anvil: Anvil) => void, progress: (step: string) => void): Promise<Stage> {
  const genesisTimestamp = Math.floor(Date.now() / 1_000) - MARKET_HOURS * 3_600 - 60;
  let compiled = 0;
  const show = () => progress(`compiling contracts: ${compiled} of ${CONTRACTS.length}`);
  show();
  const compiling = CONTRACTS.map(async (name) => {
    await contractArtifact(name);
    compiled++;
    if (compiled < CONTRACTS.length) show();
    else progress("trading");
  });
  const done = Promise.all(compiling);
  // The chain may fail first.
  done.catch(() => undefined);
  const anvil = await startAnvil({ genesisTimestamp });
  onStart(anvil);
  await placeMainnet(anvil);
  const market = await seedMarket(anvil, { hours: MARKET_HOURS, demoAt: TOKEN_ADDRESS });
  await done;
  progress("minting and moving tokens");
  const collections = await seedCollections(anvil, { drawnAt: NFT_ADDRESS });
  return { anvil, market, collections };
}

export interface DemoService {
  readonly base: string;
  readonly key: string;
  stop(): Promise<void>;
}

/**
 * Starts the service as `start` does. Reads its key and address from what it prints at the first start.
 * @param onOutput called with what the service prints
 * @throws Error with its output if it ends before it serves
 */
export async function startDemoService(
  rpcUrl: string,
  folder: string,
  onOutput: (text: string) => void,
  checkout = join(import.meta.dir, "../.."),
): Promise<DemoService> {
  const child = Bun.spawn([process.execPath, join(checkout, "src/main.ts")], {
    // Its default log is ./data/events.db: a folder of its own keeps the demo's chain out of a real one.
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      RPC_URL_ETH: rpcUrl,
      RPC_URLS_ONLY: "true",
      PORT: process.env["PORT"] ?? "0",
      LOG_LEVEL: "warn",
    },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "TERM" });
  const { promise, resolve, reject } = Promise.withResolvers<{ base: string; key: string }>();
  const reading = (async () => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      const chunk = decoder.decode(bytes, { stream: true });
      onOutput(chunk);
      text = (text + chunk).slice(-4_000);
      const key = /API key,.*:\s+([A-Za-z0-9._~-]{8,128})/.exec(text)?.[1];
      const base = /serving (\S+)\/api\/v2/.exec(text)?.[1];
      if (key !== undefined && base !== undefined) resolve({ base, key });
    }
    reject(new Error(`the service ended before it was ready:\n${text}`));
  })();
  const { base, key } = await promise;
  const stop = async () => {
    child.kill("SIGTERM");
    await child.exited;
    await reading.catch(() => undefined);
    guard.dismiss();
  };
  return { base, key, stop };
}

export interface Message {
  readonly type: string;
  readonly address?: string;
  readonly [field: string]: unknown;
}

/** One socket to the service. Messages wait until they are asked for. */
export class Listener {
  readonly #socket: WebSocket;
  readonly #messages: Message[] = [];
  #wake: () => void = () => undefined;
  #problem: Error | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data) => {
      this.#messages.push(JSON.parse(String(data)));
      this.#wake();
    });
    const fail = (error: Error) => {
      this.#problem ??= error;
      this.#wake();
    };
    socket.on("error", fail);
    socket.on("close", () => fail(new Error("the socket was closed")));
  }

  static async open({ base, key }: DemoService): Promise<Listener> {
    const socket = new WebSocket(socketUrl(base), { headers: { "x-api-key": key } });
    const listener = new Listener(socket);
    await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
    return listener;
  }

  send(message: object): string {
    const text = JSON.stringify(message);
    this.#socket.send(text);
    return text;
  }

  /** The next message of a type about a collection. Drops the messages before it. @throws Error if indexing failed */
  async next(type: string, address: string): Promise<Message> {
    for (;;) {
      const message = this.#messages.shift();
      if (message === undefined) {
        if (this.#problem !== undefined) throw this.#problem;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      if (message.type === "failed" || message.type === "error") throw new Error(JSON.stringify(message));
      if (message.type === type && message.address?.toLowerCase() === address.toLowerCase()) return message;
    }
  }

  close(): void {
    this.#socket.close();
  }
}

export const socketUrl = (base: string): string => `${base.replace(/^http/, "ws")}/api/v2/ws`;
