/** Cheap hashes that look like real ones: a few words mixed from a number, written as hex. */

const DIGITS = new Uint8Array(512);
for (let byte = 0; byte < 256; byte++) DIGITS.set(Buffer.from(byte.toString(16).padStart(2, "0")), byte * 2);

/** The finaliser of MurmurHash3. */
export function stir(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Salts, so that a block, a transaction and a holder of the same number share no digits. */
export const Salt = { block: 0x1b873593, transaction: 0x2545f491, person: 0x3c6ef372 } as const;

/** Writes `words` words of the hash of `value` as 8 hex digits each. */
export function writeHash(target: Uint8Array, at: number, value: number, salt: number, words: number): void {
  let word = stir(value ^ salt);
  for (let w = 0; w < words; w++) {
    word = stir(word + 0x9e3779b9 + w);
    writeWord(target, at + w * 8, word);
  }
}

/** Writes a number below 2^32 as 8 hex digits. */
export function writeWord(target: Uint8Array, at: number, word: number): void {
  for (let byte = 0; byte < 4; byte++) {
    const pair = ((word >>> (24 - byte * 8)) & 255) * 2;
    target[at + byte * 2] = DIGITS[pair] as number;
    target[at + byte * 2 + 1] = DIGITS[pair + 1] as number;
  }
}

/** Writes the lowest `digits` hex digits of a number. */
export function writeDigits(target: Uint8Array, at: number, value: number, digits: number): void {
  let rest = value;
  for (let i = digits - 1; i >= 0; i--) {
    const digit = rest & 15;
    target[at + i] = digit < 10 ? 48 + digit : 87 + digit;
    rest >>>= 4;
  }
}

function textOf(value: number, salt: number, words: number): string {
  const bytes = new Uint8Array(words * 8);
  writeHash(bytes, 0, value, salt, words);
  return `0x${Buffer.from(bytes).toString("latin1")}`;
}

export const blockHash = (number: number): string => textOf(number, Salt.block, 8);
export const personAddress = (person: number): string =>
  person === 0 ? `0x${"0".repeat(40)}` : textOf(person, Salt.person, 5);
export const quantity = (value: number): string => `0x${value.toString(16)}`;
