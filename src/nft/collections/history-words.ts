/** What is known of a collection's history, in words: who told it, what of it is proven, and what is in doubt. Pure. */
import { wholeText } from "../../core/format.ts";
import type { HistoryProven } from "../../events/types.ts";
import type { IndexState } from "./headline.ts";

/**
 * What is known of where a history comes from: `node`, or an archive and what is proven of it.
 * @param headersChangedAt the first block of the chain whose header doesn't make its hash, as older ones do
 */
export function historyText(
  state: Omit<HistoryProven, "type" | "block"> & { readonly provenAt?: number | null },
  headersChangedAt?: number,
): string {
  const { archives, touched, sampled, contradicted, absent, blocks = 0, provableFrom = null, provenAt = 0 } = state;
  const isEachProven = sampled === touched && touched > 0;
  const sampledText = isEachProven
    ? `all ${wholeText(touched)} blocks with a log proven by receipts`
    : `${wholeText(sampled)} of ${wholeText(touched)} blocks sampled`;
  const contradictions = contradicted === 0 ? [] : [`${wholeText(contradicted)} that the contract contradicts`];
  if (archives === "") return ["node", ...contradictions].join(", ");
  return [
    "archive",
    isEachProven && touched + absent === blocks && provenAt !== null ? "owners proven" : ownersText(state),
    ...contradictions,
    ...(provableFrom === null ? [] : [`not provable below block ${wholeText(provableFrom)}`]),
    ...(touched === 0 ? [] : [sampledText]),
    ...(headersChangedAt === undefined ? [] : [`headers from block ${wholeText(headersChangedAt)} on prove nothing`]),
  ].join(", ");
}

/**
 * Tells what the contract confirms of the owners. That each told owner is right doesn't show that none is missing. Only the
 * contract's own counts of tokens show it, or a node that proved each block.
 */
function ownersText({
  holdings,
  of,
  isComplete,
  witness = null,
  provenAt = 0,
}: Pick<HistoryProven, "holdings" | "of" | "isComplete" | "witness"> & { readonly provenAt?: number | null }): string {
  if (provenAt === null) return "owners not proven yet";
  if (of === 0 && isComplete !== true) return "owners not proven";
  if (isComplete === true) return "owners proven";
  const told =
    holdings === of ? "told owners confirmed" : `${wholeText(holdings)} of ${wholeText(of)} told owners confirmed`;
  return witness === null ? `${told}, that none is missing is not` : `${told}, and a second archive tells the same`;
}

/** What is known to be uncertain of a collection: a block that can't be read, or owners that the contract denies. */
export function doubtOf({ doubtBlock, doubtReason, ownersDoubtBlock, ownersDoubtReason }: IndexState) {
  if (doubtBlock !== null) return { block: doubtBlock, reason: doubtReason ?? "" };
  return ownersDoubtBlock === null ? null : { block: ownersDoubtBlock, reason: ownersDoubtReason ?? "" };
}
