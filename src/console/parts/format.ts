/** Numbers, times, addresses and names as people read them. */

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const PERCENT = new Intl.NumberFormat("en-US", { style: "percent", maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const whole = (count: number | bigint): string => WHOLE.format(count);
/** `1 token`, `2 tokens`. */
export const counted = (count: number, what: string): string => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;
export const short = (count: number): string => (count < 10_000 ? whole(count) : SHORT.format(count));
/** @param share from 0 to 1 */
export const percent = (share: number): string => PERCENT.format(share);

/** Six significant digits of a long decimal. */
export const shortened = (text: string): string =>
  new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 }).format(Number(text));

const EXACT = new Intl.NumberFormat("en-US", { useGrouping: false, maximumFractionDigits: 100 });
/** All digits of a decimal that may have an exponent: `1.5e-7` is `0.00000015`. */
export const exactly = (text: string): string => EXACT.format(text as `${number}`);

/** `942 B`, `3.0 MB`. */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** `18 s`, `3 min`, `2 h 10 min`, `4 days`. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** The age of an ISO time: `18 s ago`. */
export const ago = (time: string): string => `${duration((Date.now() - Date.parse(time)) / 1_000)} ago`;

/** `2026-11-24 04:02:30 UTC`. */
export const clock = (time: string): string => `${time.slice(0, 19).replace("T", " ")} UTC`;

/** `0xbc4c…f13d`. */
export const brief = (address: string): string =>
  address.length > 14 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address;

/** Letters that are written from right to left, which also turn the digits beside them. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/** What stands between these has an order of its own, also in titles, which have no markup. */
const [ISOLATE, END_ISOLATE] = ["\u2068", "\u2069"];

/** The text so that it doesn't turn its neighbours. */
export const isolated = (text: string): string => (RIGHT_TO_LEFT.test(text) ? `${ISOLATE}${text}${END_ISOLATE}` : text);

/** Characters that turn the text around them, or end its line. The joiners of emoji and of Persian do neither. */
const TURNING = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
/** Characters of a long letter, such as the emoji of a family. */
const LONGEST_LETTER = 16;
const LETTERS = new Intl.Segmenter();
/** The letters as people count them: an emoji of several characters is one. */
const lettersOf = (text: string): string[] => Array.from(LETTERS.segment(text), ({ segment }) => segment);

/**
 * Names and ids come from contracts: what could turn other text is left out, and long ones are cut. A name that is written
 * from right to left doesn't turn its neighbours.
 */
export function plain(text: string, most = 80): string {
  const clean = text.replace(TURNING, "·");
  if (clean.length <= most) return isolated(clean);
  const letters = lettersOf(clean.slice(0, most * LONGEST_LETTER));
  return isolated(letters.length <= most ? letters.join("") : `${letters.slice(0, most).join("")}…`);
}

/** Cuts a long text in the middle: names of tokens often differ at their ends only. */
export function cutInside(text: string, most: number): string {
  const letters = lettersOf(text);
  if (letters.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(-end).join("")}`;
}

const ADDRESS = /^0x[0-9a-f]{40}$/i;
export const NO_OWNER = `0x${"0".repeat(40)}`;
export const isAddress = (text: string): boolean => ADDRESS.test(text);

/** A reason as a sentence. */
export const sentenceOf = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;
