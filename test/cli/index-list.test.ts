/** `index --file` of a long list in a pseudo-terminal: bars and the count move to the end, and a table tells the rest. */
import { expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { latentProxy } from "../support/latency.ts";
import { temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const COUNT = 200;

test("indexes a list of 200 contracts, with its progress in the terminal", async () => {
  const anvil = await startAnvil();
  const artifact = await contractArtifact("PlainNft");
  const contracts: Deployed[] = [];
  for (let index = 0; index < COUNT; index++) contracts.push(await deploy(anvil, artifact, [`Listed ${index}`, "L"]));
  await inOneBlock(anvil, async () => {
    for (const { contract } of contracts) await queue(anvil, contract, "mint", [anvil.accounts[1], 1n]);
  });
  await anvil.mine(2);
  const proxy = await latentProxy(anvil.url, 25);
  const logUrl = temporaryLogUrl();
  const list = join(dirname(logUrl.slice("sqlite://".length)), "contracts.txt");
  await Bun.write(list, contracts.map(({ address }) => address).join("\n"));
  let shown = "";
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "index", "--file", list, "--wait"], {
    cwd: ROOT,
    env: {
      ...{ PATH: process.env["PATH"] ?? "", TERM: "xterm", RPC_URLS_ONLY: "true" },
      ...{ EVENT_LOG_URL: logUrl, RPC_URL_ETH: proxy.url },
    },
    terminal: {
      ...{ cols: 160, rows: 300 },
      data: (_terminal, bytes) => {
        shown += Buffer.from(bytes).toString();
      },
    },
  });
  expect(await child.exited).toBe(0);
  await proxy.stop();
  await anvil.stop();
  const counts = [...shown.matchAll(/(\d+) of 200 done/g)].map(([, count]) => Number(count));
  expect(new Set(counts).size).toBeGreaterThan(2);
  expect([...counts].sort((a, b) => a - b)).toEqual(counts);
  const table = shown.slice(shown.lastIndexOf("\x1b[J"));
  expect(table.match(/Listed \d+ +complete +1 +1 /g)).toHaveLength(COUNT);
});
