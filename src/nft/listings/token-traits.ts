/** The traits of some tokens in columns, as the thread that reads them returns them. */
export interface TokenTraits {
  /** Type and value of each different trait, one after the other. */
  readonly texts: readonly string[];
  /** The different traits of the tokens, token by token. A trait is half its place in `texts`. */
  readonly traits: Uint32Array;
  /** Where the traits of each token end in `traits`; -1 for a token without metadata. */
  readonly ends: Int32Array;
}
