/**
 * What an address is if it is no ERC-20 token, in the words of the refusal `not_a_token`. The console recognises them. Text
 * only: a browser loads this file, too.
 */
export const NO_TOKEN = {
  nft: "an NFT contract",
  account: "an account without code",
  contract: "a contract without a total supply, so no ERC-20 token",
} as const;

/** The kind that a refusal's message names; undefined if it names none. */
export function kindIn(message: string): keyof typeof NO_TOKEN | undefined {
  return (["nft", "account", "contract"] as const).find((kind) => message.includes(` is ${NO_TOKEN[kind]}`));
}
