/**
 * Growable typed columns. A column grows by half, so that slack stays below a third. The caller keeps the number of
 * rows, because the columns of one table share it.
 */

const FIRST_CAPACITY = 64;

function capacityFor(needed: number, current: number): number {
  return Math.max(needed, FIRST_CAPACITY, Math.ceil(current * 1.5));
}

/** Returns the column with room for `index`: the same one, or a larger copy. */
export function roomU32(column: Uint32Array<ArrayBuffer>, index: number): Uint32Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Uint32Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}

export function roomI32(column: Int32Array<ArrayBuffer>, index: number): Int32Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Int32Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}

export function roomU8(column: Uint8Array<ArrayBuffer>, index: number): Uint8Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Uint8Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}
