/** Names in scripts that are written from right to left, beside text that is not. */

/** Letters that are written from right to left, which also turn the digits beside them. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/** What stands between these has an order of its own, also in titles, which have no markup. */
const [ISOLATE, END_ISOLATE] = ["\u2068", "\u2069"];

/** The text so that it doesn't turn its neighbours. */
export const isolated = (text: string): string => (RIGHT_TO_LEFT.test(text) ? `${ISOLATE}${text}${END_ISOLATE}` : text);
