/** What is wrong with a chain, on each screen of it: the trouble, its reason, and the way out with a command to copy. */

import type { ComponentChildren } from "preact";
import { type ChainTrouble, troubleOfReport, troubleText, wayOutOf } from "../../chains/trouble.ts";
import { CHAIN_NAMES, type ChainStatus } from "../../client/index.ts";
import { SERVICE_PROGRAM } from "../state/base.ts";
import { readyValue } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { useStatus } from "../state/status.ts";
import { useWatched } from "../state/watched.ts";
import { ShellLine } from "./copy.tsx";
import { clock, plain, whole } from "./format.ts";

const POLL_MS = 10_000;

/**
 * The state of a chain, if its answers may be old. An operator's comes from the status, with the faults of the endpoints.
 * Other keys may not read that, and see what the newest answer about the chain said.
 */
export function ChainNotice({ chain }: { readonly chain: string }) {
  const told = useToldTrouble(chain);
  const status = readyValue(useStatus(POLL_MS))?.chains.find(({ name }) => name === chain.toLowerCase());
  const trouble = status === undefined ? told : troubleOfReport(status);
  if (trouble === undefined) return null;
  return (
    <section class="failure" role="alert">
      <TroubleWords chain={CHAIN_NAMES[chain.toLowerCase()] ?? chain} trouble={trouble}>
        {status === undefined ? null : <Reasons status={status} isSince={trouble === status.state} />}
      </TroubleWords>
    </section>
  );
}

interface TroubleOptions {
  readonly chain: string;
  readonly trouble: ChainTrouble;
  /** The reasons, if they are known. */
  readonly children?: ComponentChildren;
}

/** A chain's trouble, and what an operator can do about it. */
export function TroubleWords({ chain, trouble, children }: TroubleOptions) {
  const { text, next } = wayOutOf(chain, trouble, SERVICE_PROGRAM);
  return (
    <>
      <p>
        {troubleText(chain, trouble)}. {text}
      </p>
      {children}
      <p>
        {next.why} <ShellLine line={next.command} />
      </p>
    </>
  );
}

/** What the newest answer about a chain said. */
export const useToldTrouble = (chain: string): ChainTrouble | undefined =>
  useWatched(useSession().troubles).get(chain.toLowerCase()) as ChainTrouble | undefined;

interface ReasonOptions {
  readonly status: ChainStatus;
  /** True if the chain's state is the trouble, so that its time is that of the trouble. */
  readonly isSince: boolean;
}

/** Since when, the newest block that is shown, and what is wrong with each endpoint. */
function Reasons({ status: { since, head, endpoints }, isSince }: ReasonOptions) {
  const faults = endpoints.filter(({ reason }) => reason !== null);
  return (
    <>
      <p>
        {isSince ? `In this state since ${clock(since)}. ` : ""}
        {head === null
          ? ""
          : `The newest block that is shown is ${whole(head.number)}${head.time === null ? "" : ` of ${clock(head.time)}`}.`}
      </p>
      {faults.length === 0 ? null : (
        <ul>
          {faults.map(({ label, reason }) => (
            <li key={label}>
              {label}: {plain(reason ?? "", 200)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
