/**
 * A Bloom filter over addresses (Bloom 1970, doi.org/10.1145/362686.362692): says of an address that it is not in a set, or
 * that it may be. With 12 bits an address and 4 probes about one of 160 other addresses may be.
 */
import { hashAddress } from "../ledger/address-table.ts";

const BITS_PER_ADDRESS = 12;
const PROBES = 4;
const LEAST_ADDRESSES = 64;
/** Addresses of later transfers that fit in, as a share of those of the beginning. */
const ROOM = 1.25;
const WORDS = 5;
const SEED = 0x51ed_270b;

/** An address that is looked for in many filters. */
export type AddressProbe = readonly [first: number, step: number];

const stepOf = (hash: number): number => Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d) | 1;

export function probeOf(address: string): AddressProbe {
  const words = new Int32Array(WORDS);
  new Uint8Array(words.buffer).set(Buffer.from(address.slice(2), "hex"));
  const hash = hashAddress(SEED, words, 0);
  return [hash, stepOf(hash)];
}

export class AddressFilter {
  readonly #bits: Int32Array;
  readonly #mask: number;
  readonly #capacity: number;
  #count = 0;

  /** @param count of addresses that are known now */
  constructor(count: number) {
    const wanted = Math.max(LEAST_ADDRESSES, count * ROOM) * BITS_PER_ADDRESS;
    const bits = 2 ** Math.ceil(Math.log2(wanted));
    this.#bits = new Int32Array(bits / 32);
    this.#mask = bits - 1;
    this.#capacity = Math.floor(bits / BITS_PER_ADDRESS);
  }

  /** Bytes of a filter for so many addresses. */
  static bytesFor(count: number): number {
    return 2 ** Math.ceil(Math.log2(Math.max(LEAST_ADDRESSES, count * ROOM) * BITS_PER_ADDRESS)) / 8;
  }

  get bytes(): number {
    return this.#bits.byteLength;
  }

  /** True once more addresses were added than it has room for: then too many others may be in it. */
  get isFull(): boolean {
    return this.#count > this.#capacity;
  }

  /** Adds the address of the five words at `at`. */
  add(words: Int32Array, at: number): void {
    const first = hashAddress(SEED, words, at);
    const step = stepOf(first);
    for (let probe = 0, bit = first; probe < PROBES; probe++, bit = (bit + step) | 0) {
      const place = bit & this.#mask;
      this.#bits[place >>> 5]! |= 1 << (place & 31);
    }
    this.#count++;
  }

  /** Adds addresses of 20 bytes each. */
  addBytes(addresses: Uint8Array): void {
    // Copied, because reading 32-bit words needs alignment.
    const words = new Int32Array(addresses.length / 4);
    new Uint8Array(words.buffer).set(addresses);
    for (let at = 0; at < words.length; at += WORDS) this.add(words, at);
  }

  /** False if the address was never added. */
  mayHave([first, step]: AddressProbe): boolean {
    for (let probe = 0, bit = first; probe < PROBES; probe++, bit = (bit + step) | 0) {
      const place = bit & this.#mask;
      if (((this.#bits[place >>> 5] as number) & (1 << (place & 31))) === 0) return false;
    }
    return true;
  }
}
