/** Headers' blooms for the fake chains of the tests. */
import { Bloom } from "../../src/rpc/decode/bloom.ts";

/** Returns the bloom of a block with these logs, hex with 0x. */
export function logsBloomOf(logs: readonly { readonly address: string; readonly topics: readonly string[] }[]): string {
  const bloom = new Bloom();
  for (const log of logs) bloom.add(log);
  return `0x${bloom.value.toString(16).padStart(512, "0")}`;
}
