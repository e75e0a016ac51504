/** A disk that is full: nothing new is stored, so answers say that they are stale. They are current again with room. */
import { expect, test } from "bun:test";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const PRLIMIT = Bun.which("prlimit");
const headers = { "x-api-key": TEST_KEY };

test.skipIf(PRLIMIT === null)("answers are stale while the disk is full, and the process stays ready", async () => {
  const anvil = await startAnvil();
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Full", "F"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  const service = spawnService(
    {
      ...{ OPERATOR_KEYS: TEST_KEY, EVENT_LOG_URL: temporaryLogUrl(), RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true" },
      ...{ FOLLOW_EVERY_ETH: "0", LOG_FORMAT: "json", LOG_LEVEL: "info" },
    },
    { before: 'trap "" XFSZ' },
  );
  const limit = (bytes: string) =>
    Bun.spawnSync([PRLIMIT as string, `--pid=${service.pid}`, `--fsize=${bytes}:unlimited`]);
  try {
    const base = await service.serving;
    const finality = async () => {
      const response = await fetch(`${base}/api/v2/nft/${nft.address}?limit=1`, { headers });
      const { status } = (await response.json()) as { status: string };
      return status === "SYNCED" ? response.headers.get("x-finality") : undefined;
    };
    const shows = (what: string) =>
      eventually(`answers are ${what}`, async () => ((await finality()) === what ? true : undefined), 40_000);
    await shows("latest");
    expect(limit("4096").exitCode).toBe(0);
    // A block with a transfer can't be stored.
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 2n]);
    await shows("stale");
    expect((await fetch(`${base}/health/ready`)).status).toBe(200);
    const status = (await (await fetch(`${base}/api/status`, { headers })).json()) as { log: { writable: boolean } };
    expect(status.log.writable).toBe(false);
    expect(await (await fetch(`${base}/metrics`)).text()).toContain("\nlog_writable 0\n");
    expect(service.stderr()).toContain("the event log is not writable");
    expect(limit("unlimited").exitCode).toBe(0);
    await shows("latest");
    expect(service.stderr()).toContain("the event log is writable again");
  } finally {
    service.kill("SIGTERM");
    await service.exited;
    await anvil.stop();
  }
});
