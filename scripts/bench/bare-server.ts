/** A bare server that sends one answer of the service: the same bytes and headers. */
import { TEST_KEY } from "../../test/support/service.ts";
import type { BareAnswer } from "./bare.ts";
import { startChild } from "./children.ts";
import { temporaryFolder } from "./service.ts";

/** Headers that the server sets itself, per connection or per answer. */
const ITS_OWN = ["content-length", "date", "connection", "keep-alive", "transfer-encoding"];

/** @param answer of the service; its body is read to the end */
export async function startBareServer(
  answer: Response,
): Promise<{ port: number; bytes: number; stop(): Promise<void> }> {
  const headers = Object.fromEntries([...answer.headers].filter(([name]) => !ITS_OWN.includes(name)));
  const body = await answer.text();
  const folder = temporaryFolder();
  const path = `${folder.path}/answer.json`;
  await Bun.write(path, JSON.stringify({ body, headers } satisfies BareAnswer));
  const child = await startChild({ script: "bare.ts", args: [path], env: { KEY: TEST_KEY } });
  folder.remove();
  return { port: Number(child.line), bytes: body.length, stop: child.stop };
}
