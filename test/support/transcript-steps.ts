/**
 * The commands of the page `src/cli/transcript.md`, in the order in which an operator would use them, and what `--json`
 * prints in place of each one's text.
 */
import { type TSchema, t } from "elysia";

/** The words of a step, from what the local chain holds. */
export interface Place {
  /** ERC-721 of 240 tokens, and an ERC721A of 300. */
  readonly editions: string;
  readonly items: string;
  /** An ERC-20 with pools. */
  readonly demo: string;
}

export interface Step {
  /** The command's name; its words come from `words`. */
  readonly name: string;
  readonly words?: (place: Place) => readonly string[];
  /** One or two sentences above the output. */
  readonly text: string;
  /** `stopped`: no service runs. `log`: one runs, and the command opens the log. `url`: it is asked over HTTP. */
  readonly way: "stopped" | "log" | "url";
  /** The words for a second call with `--json`; the same words if left out. */
  readonly jsonWords?: (place: Place) => readonly string[];
  /** What `--json` prints: a schema of the OpenAPI document, a list of it, or a schema of the command's own. */
  readonly json?: Shape;
}

export type Shape =
  | {
      readonly schema: string;
      readonly isList?: boolean;
      readonly omit?: readonly string[];
      readonly add?: readonly string[];
    }
  | { readonly own: TSchema };

const closed = { additionalProperties: false } as const;
const text = () => t.String({ minLength: 1 });
const count = () => t.Number({ minimum: 0, multipleOf: 1 });
const own = (fields: Record<string, TSchema>): Shape => ({ own: t.Object(fields, closed) });
const list = (fields: Record<string, TSchema>): Shape => ({ own: t.Array(t.Object(fields, closed), { minItems: 1 }) });

const change = { chain: text(), address: text(), before: text() };
const finding = {
  what: text(),
  result: t.Union([t.Literal("ok"), t.Literal("warning"), t.Literal("fault")]),
  text: text(),
  advice: t.Optional(text()),
};
const told = {
  versions: text(),
  time: text(),
  text: text(),
  ranges: t.Optional(t.Object({ first: count(), fromBlock: count(), count: count(), transfers: count() }, closed)),
};
const file = {
  ...{ chain: text(), address: text(), block: text(), block_hash: text(), block_time: text(), finality: text() },
  ...{ file: text(), bytes: count() },
};
const written = { chain: text(), address: text(), file: text(), bytes: count() };
const copied = {
  ...{ streams: count(), events: count(), blobs: count(), copiedEvents: count(), copiedBlobs: count() },
  damaged: t.Array(
    t.Object({ where: text(), version: t.Optional(count()), text: text(), isPast: t.Boolean() }, closed),
  ),
  hash: text(),
};

export const STEPS: readonly Step[] = [
  { name: "help", way: "stopped", text: "Lists the commands. `help <command>` shows a command's options." },
  {
    ...{ name: "doctor", way: "stopped", json: list(finding) },
    text: "Checks what a start would need, and says what to do about each fault. This one checks a local chain of one node.",
  },
  {
    ...{
      name: "estimate",
      way: "stopped",
      words: ({ editions }) => [editions],
      json: { schema: "CollectionEstimate" },
    },
    text: "Says what indexing would cost, before it is done. It makes at most 20 calls.",
  },
  {
    ...{ name: "index", way: "stopped", words: () => ["--file", "contracts.txt", "--wait", "--metadata"] },
    json: { schema: "ListedCollection", isList: true, add: ["estimate", "metadata"] },
    text: "Indexes a list of contracts. Without a running service the command does the work itself. In a terminal each collection has a bar until it is done; the table comes at the end.",
  },
  {
    ...{ name: "serve", way: "stopped" },
    text: "Starts the service, as `bun run start` does. These are the first lines in a terminal; elsewhere they are JSON.",
  },
  {
    ...{ name: "status", way: "url", json: { schema: "ServiceStatus" } },
    text: "Shows the chains with their endpoints, what they cost in the last hour, and the collections by status. With `--watch` it is drawn again each second.",
  },
  {
    ...{
      name: "status",
      way: "log",
      json: {
        schema: "ServiceStatus",
        omit: ["version", "startedAt", "instance", "chains", "keys", "memory", "queue", "behindSeconds"],
      },
    },
    text: "Without `--url` the command reads the log, which knows nothing of endpoints.",
  },
  {
    ...{
      name: "collections",
      way: "url",
      words: () => ["--text", "demo"],
      json: { schema: "ListedCollection", isList: true },
    },
    text: "Lists the collections, here those with “demo” in their name.",
  },
  {
    ...{ name: "inspect", way: "log", words: ({ items }) => [items], json: list(told) },
    text: "Tells a collection's stream of events in words. It reads the log itself, also beside a running service.",
  },
  {
    ...{ name: "price", way: "url", words: ({ demo }) => [demo], json: { schema: "TokenPrice" } },
    text: "Shows a price with the state of every pool that it is computed from.",
  },
  {
    ...{ name: "prices", way: "log", words: ({ demo }) => [demo, "--output", "prices.csv"], json: own(written) },
    text: "Writes the prices that the log has of a token, one for each block at which it was read.",
  },
  {
    ...{
      name: "proof",
      way: "url",
      words: ({ items }) => ["get", items, "1", "--output", "token.json"],
      jsonWords: ({ items }) => ["get", items, "1", "--output", "other.json"],
      json: own({ file: text(), bytes: count(), block: count() }),
    },
    text: "Gets a proof of a token's owner from the service, which asks its endpoint.",
  },
  {
    ...{
      name: "proof",
      way: "log",
      words: () => ["verify", "token.json"],
      json: own({
        ...{ verified: t.Literal(true), hashCompared: t.Boolean(), kind: text(), claim: text() },
        block: t.Object({ chainId: count(), number: count(), hash: text(), timestamp: count() }, closed),
        result: t.Object({ owner: text() }, closed),
      }),
    },
    text: "Verifies the proof, without a service and without a node. Give the block's hash from another source as `--hash`.",
  },
  {
    ...{
      name: "export",
      way: "log",
      words: ({ items }) => [items, "--holders", "--output", "holders.csv"],
      json: own(file),
    },
    text: "Writes all tokens, or all owners, as they were at one block: as CSV, JSON lines or Parquet.",
  },
  {
    ...{ name: "refresh", way: "url", words: ({ editions }) => [editions, "1", "2"] },
    json: own({ chain: text(), address: text(), tokenIds: t.Array(text()) }),
    text: "Has the metadata of two tokens fetched again.",
  },
  {
    ...{ name: "reindex", way: "log", words: ({ editions }) => [editions], json: own(change) },
    text: "Has a collection indexed anew, which repairs a damaged stream. Without `--url` the request is an event in the log, and the running service acts on it.",
  },
  {
    ...{
      name: "remove",
      way: "url",
      words: ({ items }) => [items],
      jsonWords: ({ editions }) => [editions],
      json: own(change),
    },
    text: "Stops following a collection and frees its memory, until a client requests it again.",
  },
  {
    ...{ name: "keys", way: "url", words: () => ["add", "shop", "--rpm", "600"] },
    ...{ jsonWords: () => ["add", "other"], json: { schema: "KeyText" } },
    text: "Adds a key of scope `read`. It is shown once.",
  },
  {
    ...{ name: "keys", way: "url", words: () => ["rotate", "shop", "--grace", "1h"], json: { schema: "KeyText" } },
    text: "Gives a key a new text. The former one stays valid for an hour.",
  },
  {
    ...{ name: "keys", way: "url", words: () => ["list"], json: { schema: "Key", isList: true } },
    text: "Lists the keys, without their text.",
  },
  {
    ...{ name: "keys", way: "url", words: () => ["revoke", "shop"], jsonWords: () => ["revoke", "other"] },
    json: own({ name: text(), revoked: t.Literal(true) }),
    text: "Revokes a key on all replicas, and closes its sockets.",
  },
  {
    ...{ name: "backup", way: "log", words: () => ["backup.db"], jsonWords: () => ["other.db"] },
    json: own({ file: text(), bytes: count() }),
    text: "Writes the SQLite log to a new file, while the service goes on.",
  },
  {
    ...{
      name: "restore",
      way: "stopped",
      words: () => ["backup.db"],
      json: own({ log: text(), former: t.Union([text(), t.Null()]) }),
    },
    text: "Puts a backup in place of the log. The service must be stopped; the former log is kept.",
  },
  {
    ...{ name: "verify", way: "stopped" },
    json: own({ streams: count(), wrong: count(), lines: t.Array(text()) }),
    text: "Reads the whole log and checks every checksum, version, fold and blob. A line per stream has a hash of all its records.",
  },
  {
    ...{ name: "copy", way: "stopped", words: () => ["sqlite://./events.db", "sqlite://./copy.db"], json: own(copied) },
    text: "Copies a log to another one, also from SQLite to PostgreSQL and back, and compares the two.",
  },
];
