/** The parameters of the operations that explore a collection: pages, owners, transfers, traits. */
import { invalidParameter } from "../../core/errors.ts";
import { OWNER_EXAMPLE } from "../../core/examples.ts";
import { parseAddress } from "../../core/hex.ts";
import { anyText, flag, type Parameter, pageLimit, parsedText, wholeNumber } from "../wire/parameters.ts";

export const PAGE_PARAMETERS = {
  as_of_block: wholeNumber({ min: 0 }, { description: "Block; the newest one by default", example: 21_000_000 }),
  limit: pageLimit(),
  cursor: anyText({
    description: "Cursor of the previous page",
    example: "bmZ0LzEvMHhiYzRjYTBlZGE3NjQ3YThhYjdjMjA2MWMy",
  }),
};

export const ownerParameter = (description: string) =>
  parsedText(
    parseAddress,
    { allowed: "must be an address: 0x and 40 hex digits", schema: { pattern: "^0x[0-9a-fA-F]{40}$" } },
    { description, example: OWNER_EXAMPLE },
  );

export const TRANSFER_PARAMETERS = {
  ...PAGE_PARAMETERS,
  from: ownerParameter("Only transfers from this address"),
  to: ownerParameter("Only transfers to this address"),
  times: flag(false, { description: "Asks the node for the times that are not known here", example: false }),
  transactions: flag(false, {
    description: "Adds the hashes of the transactions, read from the node with one call per block",
    example: false,
  }),
};

const MAX_TRAITS = 20;
/** The longest type and value that count as a trait, 200 characters each, with a colon between them. */
const MAX_TRAIT_LENGTH = 401;
export const traitParameter: Parameter<readonly string[]> = {
  schema: { type: "array", items: { type: "string" }, maxItems: MAX_TRAITS },
  description: "Only tokens with this trait, as Type:Value; repeatable. For collections of up to 100,000 tokens",
  example: ["Fur:Golden"],
  parse: (traits, name) => {
    const isWrong = traits.some((trait) => !trait.includes(":") || trait.length > MAX_TRAIT_LENGTH);
    if (!isWrong && traits.length <= MAX_TRAITS) return traits;
    throw invalidParameter(name, `must be Type:Value, at most ${MAX_TRAITS} times`);
  },
};
