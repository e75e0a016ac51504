/** Starts a synthetic chain and controls it besides JSON-RPC. */
import { startChild } from "../children.ts";
import type { ChainOptions, ChainStats } from "./options.ts";

export interface SyntheticChain {
  readonly url: string;
  readonly head: number;
  readonly final: number;
  readonly firstBlock: number;
  /** The requests since the last reset. */
  stats(): Promise<ChainStats>;
  reset(): Promise<void>;
  /** Holds requests for logs until `release`. */
  hold(): Promise<void>;
  release(): Promise<void>;
  /** From now on this share of the answers is faulty, as drawn from the seed. */
  setFaults(share: number, seed: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startChain(options: ChainOptions): Promise<SyntheticChain> {
  const child = await startChild({ script: "chain/node.ts", args: [JSON.stringify(options)] });
  const url = `http://127.0.0.1:${child.line}`;
  const ask = async (path: string) => (await fetch(`${url}${path}`)).json();
  const { head, final, firstBlock } = (await ask("/")) as Record<"head" | "final" | "firstBlock", number>;
  return {
    url,
    head,
    final,
    firstBlock,
    stats: async () => (await ask("/stats")) as ChainStats,
    reset: async () => void (await ask("/reset")),
    hold: async () => void (await ask("/hold")),
    release: async () => void (await ask("/release")),
    setFaults: async (share, seed) => void (await ask(`/faults?share=${share}&seed=${seed}`)),
    stop: child.stop,
  };
}
