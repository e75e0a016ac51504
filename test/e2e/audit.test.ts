/**
 * The self-audit on a real chain: it finds no drift while the events are true, and drift once the state differs. It
 * also finds tokens that have owners in the contract but no log.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AbiCoder, keccak256, zeroPadValue } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { createLogger } from "../../src/core/logger.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

/** Storage slot of the owners in OpenZeppelin's ERC721, after name and symbol. */
const OWNERS_SLOT = 2;

let anvil: Anvil;
let service: TestService;
let plain: Deployed;
let multi: Deployed;
let claims: Deployed;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Audited", "AUD"]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["M", "M", ""]);
  await transact(anvil, plain.contract, "mintMany", [anvil.accounts[1], 0, 10]);
  claims = await deploy(anvil, await contractArtifact("Claims"));
  for (const { contract } of [multi, claims]) await transact(anvil, contract, "mint", [anvil.accounts[2], 7, 5]);
  await anvil.mine(4);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), auditMs: 30 });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

async function metric(name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN);
}

test("finds no drift in true holdings of every kind, and finds a state that no event explains", async () => {
  for (const { address } of [plain, multi, claims]) await synced(service, address);
  await eventually("60 holdings were checked", async () =>
    (await metric("audit_holdings_checked_total")) >= 60 ? true : undefined,
  );
  expect(await metric("audit_drift_total")).toBe(0);
  // The test overwrites the owners without any event.
  const thief = zeroPadValue(anvil.accounts[5] as string, 32);
  for (let id = 0; id < 10; id++) {
    const slot = keccak256(AbiCoder.defaultAbiCoder().encode(["uint256", "uint256"], [id, OWNERS_SLOT]));
    await anvil.send("anvil_setStorageAt", [plain.address, slot, thief]);
  }
  await anvil.mine();
  await eventually("drift is counted", async () => ((await metric("audit_drift_total")) > 0 ? true : undefined));
});

/** Collections that look as if holders were missing, although none is. */
const HONEST: readonly [name: string, args: readonly unknown[]][] = [
  ["CountingNft", []],
  ["RetiringNft", []],
  ["SquareNft", []],
  ["AccountNft", []],
  ["LazyNft", []],
  ["GhostNft", []],
  ["EnumeratedNft", []],
  ["Kitties", []],
  ["Punks", []],
  ["MoonCats", []],
  ["Land", []],
  ["ConsecutiveNft", ["Con", "CON", "0x00000000000000000000000000000000000a0d17", 30]],
  ["Hybrid", []],
  ["MultiToken", ["M", "M", ""]],
  ["Claims", []],
  ["ClaimHybrid", []],
];

describe("holders that no log explains", () => {
  let people: readonly string[];
  const warnings: Record<string, unknown>[] = [];
  const logger = createLogger("warn", { write: (line) => warnings.push(JSON.parse(line)) });
  const make = async (name: string, args: readonly unknown[] = []) => deploy(anvil, await contractArtifact(name), args);
  let audited: TestService;
  const metricOf = async (name: string) => {
    const text = await (await audited.fetch("/metrics")).text();
    return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  };

  beforeAll(async () => {
    people = anvil.accounts.slice(1, 5);
    audited = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), auditMs: 2, logger });
  });

  afterAll(() => audited?.stop());

  /** Mints three tokens and burns or moves one of them. */
  async function use({ contract }: Deployed, name: string): Promise<void> {
    const [first, second] = people as [string, string];
    if (name === "Kitties") await transact(anvil, contract, "breed", [first, 3]);
    else if (name === "Punks") await transact(anvil, contract, "setInitialOwners", [first, 4, 3]);
    else if (name === "MoonCats") {
      for (const cat of ["0x0054fc2a11", "0x0000000001"]) await transact(anvil, contract, "rescueCat", [first, cat]);
      await transact(anvil, contract, "adoptGenesisCat", [second, "0xff00000ca7"]);
    } else if (name === "AccountNft") {
      for (const to of people) await transact(anvil, contract, "mint", [to, BigInt(to)]);
    } else if (name === "MultiToken" || name === "Claims") await transact(anvil, contract, "mint", [first, 7, 5]);
    else if (name !== "ConsecutiveNft") {
      await transact(anvil, contract, "mintMany", [first, 5, 3]);
      if (name === "Land") await transact(anvil, contract, "upgrade", [2]);
      if (name === "Land") await transact(anvil, contract, "mint", [second, 8]);
      else await transact(anvil, contract, "burn", [6]);
    }
  }

  test("are not reported for burned, retired, unsold or uncountable tokens, or if the supply counts something else", async () => {
    for (const [name, args] of HONEST) {
      const deployed = await make(name, args);
      await use(deployed, name);
      await synced(audited, deployed.address, deployed.blockNumber);
    }
    const before = await metricOf("audit_holdings_checked_total");
    await eventually("each collection was audited many times", async () =>
      (await metricOf("audit_holdings_checked_total")) > before + HONEST.length * 150 ? true : undefined,
    );
    expect(await metricOf("audit_unexplained_holders_total")).toBe(0);
    expect(warnings.filter((line) => String(line["msg"]).includes("holders"))).toEqual([]);
  });

  /** Waits for warnings about the contract and returns them. */
  const warningOf = (address: string) =>
    eventually(`a warning about ${address}`, async () => {
      const lines = warnings.filter((line) => line["address"] === address.toLowerCase());
      return lines.length > 0 ? lines : undefined;
    });

  test.each([
    ["beside listed tokens", "SilentNft", [500], [501]],
    ["in a collection without listed tokens", "SilentNft", [], [2]],
    ["among ids that the contract enumerates itself", "EnumeratedNft", [3n ** 90n], [7n ** 80n, 5n ** 70n]],
    ["below the contract's total supply", "RetiringNft", [40], Array.from({ length: 400 }, (_, i) => i + 3_000)],
  ] as [string, string, (number | bigint)[], (number | bigint)[]][])(
    "are reported %s",
    async (_, name, told, silent) => {
      const { address, contract } = await make(name);
      for (const id of told) await transact(anvil, contract, "mint", [people[0], id]);
      await transact(anvil, contract, "setSilent", [true]);
      for (const id of silent.filter((id) => !told.includes(id)))
        await transact(anvil, contract, "mint", [people[1], id]);
      const last = Number(await anvil.send("eth_blockNumber"));
      const { body } = await synced(audited, address, last);
      expect(body.result.map((record: { token_id: string }) => record.token_id)).toEqual(told.map(String));
      const found = await metricOf("audit_unexplained_holders_total");
      const [warning] = await warningOf(address);
      const supply = { EnumeratedNft: told.length + silent.length, RetiringNft: 10_000 }[name];
      expect(warning).toMatchObject({
        level: "warn",
        chain: "eth",
        owner: people[1]?.toLowerCase(),
        listed: told.length,
        ...(supply === undefined ? {} : { totalSupply: String(supply) }),
      });
      expect(silent.map(String)).toContain(String(warning?.["tokenId"]));
      expect(Number(warning?.["block"])).toBeGreaterThanOrEqual(last);
      await eventually("a holder is found again", async () =>
        (await metricOf("audit_unexplained_holders_total")) > found + 2 ? true : undefined,
      );
      // There is one warning per collection.
      expect(await warningOf(address)).toHaveLength(1);
    },
  );
});

test("each collection is audited once before any is audited twice", async () => {
  const sizes = [1, 2, 4, 8, 16];
  const logUrl = temporaryLogUrl();
  const addresses: string[] = [];
  for (const size of sizes) {
    const { address, contract } = await deploy(anvil, await contractArtifact("PlainNft"), ["Sized", "S"]);
    await transact(anvil, contract, "mintMany", [anvil.accounts[1], 0, size]);
    addresses.push(address);
  }
  const before = await startTestService({ rpcUrl: anvil.url, logUrl });
  for (const address of addresses) await synced(before, address);
  await before.stop();
  const after = await startTestService({ rpcUrl: anvil.url, logUrl, auditMs: 1_000 });
  try {
    // Loads all of them before the first round.
    await Promise.all(addresses.map((address) => synced(after, address)));
    const checked = async () => {
      const text = await (await after.fetch("/metrics")).text();
      return Number(/^audit_holdings_checked_total\{chain="eth"\} (\d+)$/m.exec(text)?.[1] ?? 0);
    };
    // A round checks all holdings of a collection. Only one round for each of the sizes adds up to this.
    const all = sizes.reduce((sum, size) => sum + size);
    const sum = await eventually("a round for each collection", async () => {
      const now = await checked();
      return now >= all ? now : undefined;
    });
    expect(sum).toBe(all);
  } finally {
    await after.stop();
  }
});
