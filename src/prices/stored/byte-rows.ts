/** Rows of bytes with the block of each, in a few arrays that grow. A million rows are no million objects. */
const LEAST_ROWS = 64;
const LEAST_BYTES = 8_192;

export class ByteRows {
  #blocks = new Uint32Array(LEAST_ROWS);
  /** Where each row ends in the bytes. */
  #ends = new Float64Array(LEAST_ROWS);
  #data = new Uint8Array(LEAST_BYTES);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Bytes in memory. */
  get bytes(): number {
    return this.#data.length + this.#blocks.length * 12;
  }

  /** Appends a row. Copies its bytes: a view of few bytes would keep the page that it was read in. */
  push(block: number, bytes: Uint8Array): void {
    const from = this.#start(this.#size);
    const end = from + bytes.length;
    if (this.#size === this.#blocks.length) {
      this.#blocks = grown(this.#blocks, Uint32Array);
      this.#ends = grown(this.#ends, Float64Array);
    }
    if (end > this.#data.length) {
      const data = new Uint8Array(Math.max(end, this.#data.length * 2));
      data.set(this.#data.subarray(0, from));
      this.#data = data;
    }
    this.#data.set(bytes, from);
    this.#blocks[this.#size] = block;
    this.#ends[this.#size++] = end;
  }

  block(row: number): number {
    return this.#blocks[row]!;
  }

  at(row: number): Uint8Array {
    return this.#data.subarray(this.#start(row), this.#ends[row]);
  }

  #start(row: number): number {
    return row === 0 ? 0 : this.#ends[row - 1]!;
  }

  /**
   * The last row at or before a block, among those from `first` on and before `end`, whose blocks rise.
   * @returns `first - 1` if there is none
   */
  lastAt(block: number, first = 0, end = this.#size): number {
    let [low, high] = [first - 1, end - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#blocks[middle]! <= block) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Drops the rows from this one on. */
  truncate(size: number): void {
    this.#size = Math.min(size, this.#size);
  }
}

function grown<T extends Uint32Array | Float64Array>(array: T, kind: new (length: number) => T): T {
  const next = new kind(array.length * 2);
  next.set(array);
  return next;
}
