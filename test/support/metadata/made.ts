/** Previews of a picture that must be possible to make. */
import type { MadePreview } from "../../../src/nft/metadata/media/preview-process.ts";
import type { Previews } from "../../../src/nft/metadata/media/previews.ts";

const { signal } = new AbortController();

/** @throws if the previews were not made */
export async function made(
  previews: Previews,
  bytes: Uint8Array,
  mimetype: string,
): Promise<{ readonly hash: string; readonly previews: readonly MadePreview[] }> {
  const outcome = await previews.make(bytes, mimetype, signal);
  if (outcome.kind !== "made") throw new Error(`the picture is ${outcome.kind}`);
  return outcome;
}
