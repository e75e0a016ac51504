/** Calls at the node's newest block, and at a head it has just told: by whom they may be answered, and of which block. */
import { AppError } from "../core/errors.ts";
import type { BlockHeader, Call, CallsAtHead } from "../rpc/port.ts";
import type { PricesContext } from "./context.ts";

type Asked = Pick<PricesContext, "reader" | "view">;

/** At the newest block: not by an endpoint that is behind what is followed, where another one is not. */
export async function callsAtHead({ reader, view }: Asked, calls: readonly Call[]): Promise<CallsAtHead> {
  const answer = await reader.callsAtHead(calls);
  const followed = view.head();
  if (followed === undefined || answer.header.number >= followed.number) return answer;
  return (await reader.passOverLaggards(followed)) ? reader.callsAtHead(calls) : answer;
}

/** At a head that was just told, in one round trip, or at the newest block where there is none or it is not to be had. */
export async function callsAt(
  context: Asked,
  calls: readonly Call[],
  header: BlockHeader | undefined,
): Promise<CallsAtHead> {
  return (await callsAtTold(context, calls, header)) ?? callsAtHead(context, calls);
}

/** Without a question for the head: where there is no Multicall3 that is a round trip of its own. */
async function callsAtTold(
  { reader }: Asked,
  calls: readonly Call[],
  header: BlockHeader | undefined,
): Promise<CallsAtHead | undefined> {
  if (header === undefined) return undefined;
  try {
    const [results, now] = await Promise.all([reader.calls(calls, header.number), reader.header(header.number)]);
    return now?.hash === header.hash ? { header, results } : undefined;
  } catch (error) {
    // Another endpoint may have answered, one that is not there yet.
    if (error instanceof AppError) return undefined;
    throw error;
  }
}
