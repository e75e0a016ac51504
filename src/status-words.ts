/**
 * The statuses of the wire in words for people. The API's documents, the console and the command line take them from here,
 * so that a status has the same name everywhere. The values of the wire are the names of the entries, in their order.
 */

interface StatusWord {
  /** Stands in tables and labels. */
  readonly word: string;
  /** What a reader can expect, for documents and help. */
  readonly meaning: string;
}

/** The status of a listing. */
export const LISTING_WORDS = {
  SYNCING: { word: "indexing", meaning: "the history is being read; pages list what is indexed so far" },
  SYNCED: { word: "complete", meaning: "the whole history is indexed" },
} satisfies Record<string, StatusWord>;

/** The status of a collection, as operators see it. */
export const COLLECTION_WORDS = {
  requested: { word: "waiting", meaning: "requested, and the contract is not identified yet" },
  indexing: { word: "indexing", meaning: "its history is being read" },
  joining: { word: "catching up", meaning: "its history is read, and the newest blocks are being added" },
  following: { word: "complete", meaning: "the whole history is indexed, and new blocks are added as they come" },
  failing: { word: "failed, will retry", meaning: "the last attempt failed, and the next one waits" },
  not_nft: { word: "not an NFT contract", meaning: "the contract has no NFT standard, and never moved an NFT" },
  not_a_contract: { word: "no contract", meaning: "there is no code at the address" },
  removed: { word: "removed", meaning: "not indexed any more, until a client requests it again" },
} satisfies Record<string, StatusWord>;

/** The state of a chain. */
export const CHAIN_WORDS = {
  following: { word: "reading new blocks", meaning: "new blocks are added to collections and prices as they come" },
  idle: { word: "idle", meaning: "nothing needs new blocks" },
  halted: { word: "halted", meaning: "a reorganisation went deeper than the blocks that its node called final" },
  unreachable: { word: "unreachable", meaning: "no endpoint answers" },
  wrong_chain: { word: "wrong chain", meaning: "the endpoints are of another chain" },
} satisfies Record<string, StatusWord>;

/** The state of an endpoint. In each state but the first two, other endpoints are preferred. */
export const ENDPOINT_WORDS = {
  unused: { word: "not used yet", meaning: "nothing was asked of it" },
  available: { word: "available", meaning: "it answers" },
  wrong_chain: { word: "wrong chain", meaning: "it is of another chain" },
  lied: { word: "wrong answers", meaning: "an answer contradicted the chain" },
  behind: { word: "behind", meaning: "its newest block is older than that of others" },
  paused: { word: "rate limited", meaning: "it asked for a pause with Retry-After" },
  failed: { word: "failed", meaning: "its last answers were errors, or none came" },
} satisfies Record<string, StatusWord>;

/** The state of an archive of a chain's history. */
export const ARCHIVE_WORDS = {
  ready: { word: "ready", meaning: "it is asked for long histories" },
  resting: { word: "paused", meaning: "its last answer was a fault" },
  asleep: { word: "not needed", meaning: "not asked, because the node alone is as quick" },
} satisfies Record<string, StatusWord>;

/** The outcome of an attempt to fetch a token's metadata. */
export const OUTCOME_WORDS = {
  resolved: { word: "fetched", meaning: "metadata was found" },
  failed: { word: "failed", meaning: "no metadata was found" },
} satisfies Record<string, StatusWord>;

/** The state of the previews of a picture. Without one, the console shows the word in its place. */
export const MEDIA_WORDS = {
  success: { word: "ready", meaning: "the previews are made" },
  processing: { word: "picture comes", meaning: "the picture is being fetched, or its previews are being made" },
  unsupported_media: { word: "not a picture", meaning: "the file is of a type that has no preview" },
  invalid_url: { word: "no valid link", meaning: "the metadata has no URL of a picture, or one that can't be asked" },
  host_unavailable: { word: "host is down", meaning: "the host of the picture does not answer" },
  temporarily_unavailable: { word: "not available now", meaning: "the last attempt failed, and another one follows" },
} satisfies Record<string, StatusWord>;

/** The values of the wire. */
export const wireValues = <Words extends Readonly<Record<string, StatusWord>>>(words: Words) =>
  Object.keys(words) as (keyof Words & string)[];

/** Each value with its word, if that differs, and its meaning. For the description of a field. */
export const glossaryOf = (words: Readonly<Record<string, StatusWord>>): string =>
  Object.entries(words)
    .map(([status, { word, meaning }]) => `${nameOf(status, word)}: ${meaning}`)
    .join("; ");

/** Each value with its word, if that differs. For the help of an option. */
export const valuesWithWords = (words: Readonly<Record<string, StatusWord>>): string =>
  Object.entries(words)
    .map(([status, { word }]) => nameOf(status, word))
    .join(", ");

const nameOf = (status: string, word: string): string =>
  status.replaceAll("_", " ") === word ? status : `${status} (${word})`;

/** The word of a status that an answer names as a text; the text itself for one of a newer release. */
export const statusWord = (words: Readonly<Record<string, StatusWord>>, status: string): string =>
  words[status]?.word ?? status.replaceAll("_", " ");
