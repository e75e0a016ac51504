/**
 * What keeps a chain's answers from being current, and what an operator can do about it, in the words of the API, the
 * command line and the console. Text only: a browser loads this file, too.
 */

/**
 * Why answers of a chain may be old: a reorganisation deeper than finality stopped its follower; all its endpoints are of
 * another chain, have been silent for a minute, or are behind.
 */
export type ChainTrouble = "halted" | "wrong_chain" | "unreachable" | "behind";

/**
 * What endpoints in these states keep from their chain. The cases are:
 * 1. All are of other chains.
 * 2. One may answer: nothing.
 * 3. One answers, but has older blocks than another one had.
 * 4. None answers.
 */
export function troubleOfEndpoints(states: readonly string[]): Exclude<ChainTrouble, "halted"> | undefined {
  if (states.every((state) => state === "wrong_chain")) return "wrong_chain";
  if (states.some((state) => state === "unused" || state === "available")) return undefined;
  return states.includes("behind") ? "behind" : "unreachable";
}

interface ChainReport {
  readonly state: string;
  readonly endpoints: readonly { readonly state: string }[];
}

/** What keeps a chain of `GET /api/status` from current answers; undefined if nothing does. */
export const troubleOfReport = ({ state, endpoints }: ChainReport): ChainTrouble | undefined =>
  state === "halted" ? state : troubleOfEndpoints(endpoints.map((endpoint) => endpoint.state));

/** The variable that holds the endpoints of a chain: `RPC_URL_BSC_TESTNET`. */
export const endpointVariable = (chain: string): string => `RPC_URL_${envSuffix(chain)}`;

/** The suffix of a chain's environment variables: `ETH`, `BSC_TESTNET`. */
export const envSuffix = (chain: string): string => chain.toUpperCase().replace(/[^A-Z0-9]+/g, "_");

const REASONS: Readonly<Record<ChainTrouble, string>> = {
  halted:
    "is halted: a reorganisation went deeper than what its node called final, and answers are from the time before it",
  wrong_chain: "can't be read: its endpoints are of another chain",
  unreachable: "can't be read: none of its endpoints answers",
  behind: "is behind: the endpoints that answer have older blocks than another one had, and answers may be as old",
};

/** What can't be known of a chain whose headers stopped making their hash. */
export const HEADERS_CHANGED =
  "headers from this block on don't make their hash, as older ones do: the chain has forked to headers that this release " +
  "doesn't know. What archives tell of later blocks is proven by receipts alone. Upgrade the service";

/** What is wrong with a chain, as a sentence without its full stop. */
export const troubleText = (chain: string, trouble: ChainTrouble): string => `${chain} ${REASONS[trouble]}`;

/** What an operator can do about a trouble. */
export interface WayOut {
  /** Whole sentences. */
  readonly text: string;
  /** A command for a shell, after the words that say what it is for. */
  readonly next: { readonly why: string; readonly command: string };
}

/** The command that asks each endpoint. @param program the words by which the program was started */
export const doctorOf = (program: string): WayOut["next"] => ({
  why: "This command names the fault of each endpoint:",
  command: `${program} doctor`,
});

/** What an operator can do about a chain's trouble. @param program as for `doctorOf` */
export function wayOutOf(chain: string, trouble: ChainTrouble, program: string): WayOut {
  const variable = endpointVariable(chain);
  const restart = "Then restart the service.";
  switch (trouble) {
    case "halted":
      return {
        text: `Give ${variable} a node that has the final block. ${restart} Following continues by itself.`,
        next: {
          why: "If the chain itself was rolled back, stop the service, and have its record of the chain forgotten:",
          command: `bun scripts/forget-chain.ts ${chain.includes(" ") ? `'${chain}'` : chain}`,
        },
      };
    case "wrong_chain":
      return { text: `Correct ${variable}. ${restart}`, next: doctorOf(program) };
    case "unreachable":
      return {
        text: `Check ${variable}, and that the network lets this machine reach its hosts.`,
        next: doctorOf(program),
      };
    case "behind":
      return {
        text: `Wait until they have caught up, or add an endpoint to ${variable}. ${restart}`,
        next: doctorOf(program),
      };
  }
}
