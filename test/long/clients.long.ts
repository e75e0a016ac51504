/**
 * Clients made by three generators from npm from the document of a running service, compiled strictly and used against
 * that service, with both wire types. Generators and compiler are installed into a separate folder.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

const HERE = join(import.meta.dir, "clients");
/** Command lines, without the output folder. */
const GENERATORS = {
  "openapi-fetch": ["openapi-typescript", "document.json", "-o", "generated/openapi-typescript.ts"],
  "hey-api": ["openapi-ts", "-i", "document.json", "-o", "generated/hey-api"],
  "swagger-typescript-api": [
    ...["swagger-typescript-api", "generate", "-p", "document.json"],
    ...["-o", "generated/swagger-typescript-api", "-n", "api.ts"],
  ],
} as const;

let anvil: Anvil;
let market: Market;
let collections: Collections;
const folders: string[] = [];

/** Runs a command to its end. @throws with the output of a command that failed */
async function run(folder: string, command: readonly string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, ...command], { cwd: folder, stdout: "pipe", stderr: "pipe" });
  const [said, complained] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${said}${complained}`);
}

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 600, slotsInAnEpoch: 2 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  collections = await seedCollections(anvil);
  await anvil.mine(6);
});

afterAll(async () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  await anvil?.stop();
});

for (const wire of ["seed", "native"] as const) {
  describe(`with WIRE_TYPES=${wire}`, () => {
    let service: TestService;
    let folder: string;
    let nft: string;

    beforeAll(async () => {
      const env = { WIRE_TYPES: wire };
      service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
      nft = collections.plain.address.toLowerCase();
      await synced(service, nft);
      await eventually("metadata and pictures are complete", async () => {
        const records = await walkListing(service, nft, "limit=500&media_items=true");
        return records.every((each) => each.metadata !== null && each.media.status !== "processing") ? true : undefined;
      });
      folder = mkdtempSync(join(tmpdir(), "clients-"));
      folders.push(folder);
      cpSync(HERE, folder, { recursive: true });
      await Bun.write(join(folder, "document.json"), await (await service.fetch("/swagger/json")).text());
      const [count, flag] = wire === "native" ? ["number", "boolean"] : ["string", '"true" | "false"'];
      await Bun.write(join(folder, "wire.ts"), `export type Count = ${count};\nexport type Flag = ${flag};\n`);
      await run(folder, ["install", "--frozen-lockfile", "--ignore-scripts", "--silent"]);
      await Promise.all(Object.values(GENERATORS).map((command) => run(folder, ["--bun", "run", ...command])));
    });
    afterAll(() => service?.stop());

    test("generated clients and the code that uses them compile", () =>
      run(folder, ["--bun", "run", "tsc", "-p", "."]));

    for (const client of Object.keys(GENERATORS)) {
      test(`${client} reads pages, prices and refusals`, async () => {
        const { use } = await import(join(folder, `use-${client}.ts`));
        const asked = { base: `http://127.0.0.1:${service.port}`, key: TEST_KEY, nft, token: market.demo.address };
        const seen = await use(asked);
        const records = await walkListing(service, nft, "limit=500&normalizeMetadata=true&media_items=true");
        const price = (await service.get(`/api/v2/erc20/${asked.token}/price?include=provenance`)).body;
        const total = wire === "native" ? records.length : String(records.length);
        const [leg] = price.provenance.route;
        expect(records.length).toBeGreaterThan(100);
        expect(seen).toEqual({
          ids: records.map(({ token_id }) => token_id),
          totals: [total, null],
          isSpam: records[0].possible_spam,
          rich: { name: records[0].normalized_metadata.name, media: records[0].media.status },
          plain: ["", ""],
          price: { usd: price.usdPrice, decimals: 18, pool: leg.pool, block: leg.block },
          refusal: { status: 400, code: "invalid_parameter", parameter: "limit" },
        });
      });
    }
  });
}
