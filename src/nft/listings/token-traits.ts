/** The traits of some tokens in columns, as the thread that reads them returns them. */
export interface TokenTraits {
  /** The different types, and of each different trait its type, as a place in them, and its value. */
  readonly types: readonly string[];
  readonly typeOf: Uint32Array;
  readonly values: readonly string[];
  /** The different traits of the tokens, token by token. A trait is its place in `values`. */
  readonly traits: Uint32Array;
  /** Where the traits of each token end in `traits`; -1 for a token without metadata. */
  readonly ends: Int32Array;
}
