/** Parses the JSON of other machines from bytes. A few megabytes of empty objects would take gigabytes as values. */
const decoder = new TextDecoder();

/** Shorter texts are parsed, whatever they hold. */
const MIN_CROWD = 65_536;
/** Fewest bytes of a text per list or object in it. The shortest answer in a batch has 24, and a log has 75. */
const BYTES_PER_VALUE = 20;
const [OBJECT, LIST] = [0x7b, 0x5b];

/** True if a text holds more lists and objects than blocks, logs or answers do for their size. */
export function isCrowded(text: Uint8Array): boolean {
  if (text.length < MIN_CROWD) return false;
  let left = text.length / BYTES_PER_VALUE;
  for (const sign of [OBJECT, LIST]) {
    for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + 1)) if (--left < 0) return true;
  }
  return false;
}

/** The value of a JSON text. Undefined if it is not JSON, or crowded. */
export function jsonIn(text: Uint8Array): unknown {
  if (isCrowded(text)) return undefined;
  try {
    return JSON.parse(decoder.decode(text));
  } catch {
    return undefined;
  }
}
