/**
 * What a collection's contract tells about it by ERC-7572. The document that `contractURI()` names is fetched, stored and
 * normalised like a token's. In: its facts, as a page has them. Out: bounded values, because the author decides them.
 */
import type { RecordFacts } from "../listings/record.ts";
import type { Outcome } from "./book.ts";
import type { NormalizedMetadata } from "./resolve/normalize.ts";

export interface ContractDocument {
  /** What `contractURI()` returned. Null if it returned nothing, was not asked yet, or its answer is too long to show. */
  readonly uri: string | null;
  /** Why the last attempt failed; null if it succeeded, or there was none yet. */
  readonly failure: string | null;
  /** Without control characters, like the name that a contract returns itself. */
  readonly name: string | null;
  readonly description: string | null;
  /** The picture's URI as the document has it; null for one that is too long to show. The preview has those, too. */
  readonly image: string | null;
  readonly externalLink: string | null;
  /** JSON of the picture's `media`; "" unless it was requested. */
  readonly media: string;
}

/** Characters of a name, as for those that contracts return, of a description, and of an address. */
const [MAX_NAME, MAX_DESCRIPTION, MAX_ADDRESS] = [256, 5_000, 8_192];

const cut = (text: string | null, most: number): string | null => text?.slice(0, most).toWellFormed() ?? null;
const address = (text: string | null): string | null => (text === null || text.length > MAX_ADDRESS ? null : text);

/** @param facts with the normalised metadata; @param newest the last attempt */
export function documentOf(facts: RecordFacts, newest: Outcome | undefined): ContractDocument {
  const fields = JSON.parse(facts.normalized) as NormalizedMetadata;
  return {
    uri: address(JSON.parse(facts.tokenUri) as string | null),
    failure: newest?.reason ?? null,
    name: cut(fields.name, MAX_NAME)?.replace(/\p{Cc}/gu, "") || null,
    description: cut(fields.description, MAX_DESCRIPTION),
    image: address(fields.image),
    externalLink: address(fields.external_link ?? fields.external_url),
    media: facts.media,
  };
}
