/** Numbers and times as people read them, in log lines and on the command line; and the word that a typing error means. */
let whole: Intl.NumberFormat | undefined;

/** `980,042`. */
export function wholeText(count: number): string {
  // Its data take 20 ms to load, which no start has to wait for.
  whole ??= new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  return whole.format(count);
}

/** `1 token`, `2 tokens`. */
export const countedText = (count: number, what: string): string =>
  `${wholeText(count)} ${what}${count === 1 ? "" : "s"}`;

/** `942`, `9,420`, `94.2 k`, `3.0 M`. */
export function countText(count: number): string {
  if (count < 10_000) return wholeText(count);
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)} k` : `${(count / 1_000_000).toFixed(1)} M`;
}

/** `0.4 s`, `18 s`, `3 min 5 s`, `2 h 10 min`. */
export function durationText(ms: number): string {
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
}

/** `942 B`, `94.2 KB`, `3.0 MB`, `1.2 GB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} KB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/** Characters that move a terminal's cursor, end a line, hide, or turn the order of others. Not the joiners of emoji and Persian. */
const UNPRINTABLE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The escape of JSON and JavaScript, such as `\u202e`. */
const escapeOf = (character: string): string =>
  [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`)
    .join("");

/** The text on one line, in which each character is seen: names and errors come from contracts and nodes. */
export const printable = (text: string): string => text.replace(UNPRINTABLE, escapeOf);

/** The same for text with lines and tabs of its own. JSON stays the same JSON. */
export const printableLines = (text: string): string =>
  text.replace(UNPRINTABLE, (character) =>
    character === "\n" || character === "\t" ? character : escapeOf(character),
  );

/** More is another word. */
const MOST_EDITS = 4;

/** The word that a typing error most likely stands for; undefined if none is near. */
export const nearestWord = (word: string, words: readonly string[]): string | undefined => nearestOf(words)(word);

/** The same for many errors: a start looks at each variable of its environment. */
export function nearestOf(words: readonly string[]): (word: string) => string | undefined {
  const known = words.map((one) => ({ one, letters: lettersOf(one) }));
  return (word) => {
    const most = Math.min(MOST_EDITS, Math.max(2, word.length / 3));
    const letters = lettersOf(word);
    let nearest: string | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const { one, letters: others } of known) {
      // Each letter that the other word lacks is an edit.
      const mayBeNear = bitsOf(letters & ~others) <= most && bitsOf(others & ~letters) <= most;
      const distance = one.startsWith(word)
        ? 0.5
        : mayBeNear
          ? editDistance(word, one, most)
          : Number.POSITIVE_INFINITY;
      if (distance < least) [nearest, least] = [one, distance];
    }
    return least <= most ? nearest : undefined;
  };
}

/** The characters of a word as bits, of which several share one. */
function lettersOf(word: string): number {
  let bits = 0;
  for (let at = 0; at < word.length; at++) bits |= 1 << (word.charCodeAt(at) & 31);
  return bits;
}

function bitsOf(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
}

/** Number of letters to insert, delete or replace (Levenshtein); infinite if it is above `most`. */
function editDistance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] as number) + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min((next[j] as number) + 1, (row[j + 1] as number) + 1, replaced));
    }
    if (Math.min(...next) > most) return Number.POSITIVE_INFINITY;
    row = next;
  }
  return row.at(-1) as number;
}
