/** The p99 of a page under load at a fixed rate, with the client in a process of its own. */
import { runChild } from "./children.ts";
import type { SteadyOptions, SteadyResult } from "./parts/steady.ts";
import { type BenchService, KEY_HEADERS } from "./service.ts";

export const STEADY_PER_SECOND = 500;

/** The p99 in ms, over a load of `ms`. */
export async function steadyP99({ port }: Pick<BenchService, "port">, path: string, ms: number): Promise<number> {
  const options: SteadyOptions = { port, path, headers: KEY_HEADERS, perSecond: STEADY_PER_SECOND, ms };
  return (await runChild<SteadyResult>({ script: "parts/steady.ts", args: [JSON.stringify(options)] })).p99;
}
