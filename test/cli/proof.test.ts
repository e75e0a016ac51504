/** `proof verify` as a user runs it, without a service, a node or a log. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StateDocument } from "../../src/proof/verifier/document.ts";
import { runCli } from "../support/cli.ts";
import { proverOver, startProofWorld } from "../support/proofs.ts";

let folder: string;
let document: StateDocument;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "proof-"));
  const world = await startProofWorld();
  const { prover, close } = proverOver(world.anvil.url);
  const [{ kind, subject } = { kind: "owner" as const, subject: {} }] = world.cases;
  const block = Number(await world.anvil.send("eth_blockNumber"));
  document = await prover.prove({ kind, subject, block, hash: undefined });
  close();
  await world.stop();
  await Bun.write(join(folder, "token.json"), JSON.stringify(document));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const verify = (...words: string[]) => runCli(["proof", "verify", ...words], {}, folder);

test("verifies a proof, and says whose word the block's hash still is", async () => {
  const { code, out } = await verify("token.json");
  expect(code).toBe(0);
  expect(out).toContain(document.claim);
  expect(out).toContain(`verified, if ${document.blockHash} is the hash of block`);
  const compared = await verify("token.json", "--hash", document.blockHash);
  expect([compared.code, compared.out]).toEqual([0, `${document.claim}\nverified\n`]);
});

test("refuses a changed proof, another hash, and what is no proof, with the reason and exit code 1", async () => {
  await Bun.write(
    join(folder, "forged.json"),
    JSON.stringify({ ...document, result: { owner: `0x${"11".repeat(20)}` } }),
  );
  await Bun.write(join(folder, "text.json"), "no proof");
  const forged = await verify("forged.json");
  expect([forged.code, forged.out, forged.err]).toEqual([
    1,
    "",
    expect.stringContaining("the document's result differs"),
  ]);
  const other = await verify("token.json", "--hash", `0x${"22".repeat(32)}`, "--json");
  expect([other.code, JSON.parse(other.out)]).toEqual([
    1,
    { verified: false, reason: expect.stringContaining(`and not of 0x${"22".repeat(32)}`) },
  ]);
  expect((await verify("text.json")).err).toBe("text.json proves nothing: the document is not JSON\n");
  expect((await verify("absent.json")).code).toBe(1);
});

test("refuses wrong words with the way out", async () => {
  const errors = async (...words: string[]) => {
    const { code, err } = await runCli(["proof", ...words], {}, folder);
    return [code, err.trim()];
  };
  expect(await errors()).toEqual([64, "proof needs an action: verify or get"]);
  expect(await errors("verfy", "x")).toEqual([64, "unknown action verfy: did you mean verify?"]);
  expect(await errors("verify")).toEqual([64, "proof verify needs the name of one file"]);
  expect(await errors("verify", "token.json", "--hash", "0x12")).toEqual([64, "--hash: must be 0x and 64 hex digits"]);
  expect(await errors("get", `0x${"11".repeat(20)}`, "1")).toEqual([
    64,
    "proof get needs --url: a running service, which has endpoints",
  ]);
});
