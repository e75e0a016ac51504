/**
 * The program in one file, alone in a folder and without Bun on its path: it indexes, survives a SIGKILL in the middle,
 * serves its pages' assets, over both logs. It makes previews only with the image library beside it.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compile } from "../../scripts/compile.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { productionPackages } from "../../scripts/notices.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
/** Blocks per range, so that the history takes several appends. */
const RANGE = 4;
/** Ranges that the node answers before it holds the rest, until the program was killed. */
const RANGES = 3;

let folder: string;
let program: string;
let anvil: Anvil;
let postgres: Postgres;
let proxy: RpcProxy;
let collections: Collections;
let ranges = 0;
let gate: PromiseWithResolvers<void> | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "compiled-"));
  program = join(folder, "evm-data-service");
  await compile(program);
  [anvil, postgres] = await Promise.all([startAnvil({ slotsInAnEpoch: 1 }), startPostgres()]);
  collections = await seedCollections(anvil);
  await anvil.mine(4);
  proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }];
      if (Number(toBlock) - Number(fromBlock) >= RANGE) {
        return { error: { code: -32602, message: `query exceeds max block range ${RANGE}` } };
      }
      return ++ranges > RANGES && gate !== undefined ? { delayUntil: gate.promise } : undefined;
    },
  });
}, 300_000);
afterAll(async () => {
  await proxy?.stop();
  await Promise.all([anvil?.stop(), postgres?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

interface Row {
  readonly token_id: string;
  readonly owner_of: string;
  readonly media: { readonly status: string };
}

/** The whole listing once the collection is indexed. */
function listing({ get }: ServiceProcess, address: string): Promise<readonly Row[]> {
  return eventually(
    `${address} is indexed`,
    async () => {
      const response = await get(`/api/v2/nft/${address}?limit=500&media_items=true`);
      const { status, result } = (await response.json()) as { status: string; result: readonly Row[] };
      return status === "SYNCED" ? result : undefined;
    },
    60_000,
  );
}

async function stopped(service: ServiceProcess): Promise<void> {
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
}

test("is two files, and the notices name each package inside", () => {
  expect(readdirSync(folder).sort()).toEqual(["NOTICES.txt", "evm-data-service"]);
  const text = readFileSync(join(folder, "NOTICES.txt"), "utf8");
  for (const { name, version } of productionPackages(ROOT)) expect(text).toContain(`── ${name} ${version} (`);
});

test("has the command line", async () => {
  const run = async (...words: string[]) => {
    const child = Bun.spawn([program, ...words], { cwd: folder, env: {}, stderr: "pipe" });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    return { code: await child.exited, out, err };
  };
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(await run("--version")).toEqual({ code: 0, out: `${version}\n`, err: "" });
  expect((await run("--help")).out).toContain("collections");
  expect(await run("statsu")).toMatchObject({ code: 64, err: expect.stringContaining("status") });
  rmSync(join(folder, "data"), { recursive: true, force: true });
});

describe.each(["SQLite", "PostgreSQL"] as const)("over %s", (engine) => {
  test("indexes over a SIGKILL, and serves what the contract says", async () => {
    const file = join(folder, "events.db");
    const url = engine === "SQLite" ? `sqlite://${file}` : await postgres.createDatabase();
    const env = {
      ...{ EVENT_LOG_URL: url, RPC_URL_ETH: proxy.url, RPC_URLS_ONLY: "true", SNAPSHOT_DIR: join(folder, "snapshots") },
      ...{ PATH: "", CURSOR_SECRET: "a secret of sixteen characters" },
    };
    const { plain, multi } = collections;
    [ranges, gate] = [0, Promise.withResolvers<void>()];
    const killed = await startServiceProcess(env, program);
    expect((await killed.get(`/api/v2/nft/${plain.address}`)).status).toBe(200);
    await eventually("the history is half read", async () => (ranges > RANGES ? true : undefined));
    killed.kill("SIGKILL");
    await killed.exited;
    gate.resolve();
    gate = undefined;

    const service = await startServiceProcess(env, program);
    const owners = new Map((await listing(service, plain.address)).map((row) => [BigInt(row.token_id), row.owner_of]));
    expect(owners).toEqual(new Map(plain.owners));
    const ids = new Set((await listing(service, multi.address)).map(({ token_id }) => BigInt(token_id)));
    expect([...multi.balances].filter(([, held]) => held.size > 0).every(([id]) => ids.has(id))).toBe(true);

    for (const [path, type] of [
      ["/", "text/html"],
      ["/console/app.js", "text/javascript"],
      ["/console/app.css", "text/css"],
      ["/console/proof.js", "text/javascript"],
      ["/swagger", "text/html"],
      ["/swagger/swagger-ui.css", "text/css"],
      ["/swagger/swagger-ui-bundle.js", "text/javascript"],
    ] as const) {
      const response = await service.get(path);
      expect([path, response.status, response.headers.get("content-type")]).toEqual([
        path,
        200,
        expect.stringContaining(type),
      ]);
      expect((await response.text()).length).toBeGreaterThan(300);
    }

    // Documents are read without the image library, pictures wait for it.
    expect(service.stderr()).toContain("no image library");
    const one = `/api/v2/nft/${plain.address}?limit=1&media_items=true&normalizeMetadata=true`;
    await eventually("the metadata is resolved", async () => {
      const { result } = (await (await service.get(one)).json()) as {
        result: { normalized_metadata: { name: unknown } }[];
      };
      return typeof result[0]?.normalized_metadata.name === "string" ? true : undefined;
    });
    const [first] = await listing(service, plain.address);
    expect(first?.media.status).toBe("processing");
    await stopped(service);
  });

  test("makes previews with the image library beside it", async () => {
    const modules = join(folder, "node_modules");
    mkdirSync(modules, { recursive: true });
    for (const name of ["sharp", "@img", "detect-libc", "semver"]) {
      cpSync(join(ROOT, "node_modules", name), join(modules, name), { recursive: true, dereference: true });
    }
    try {
      const url = engine === "SQLite" ? `sqlite://${join(folder, "previews.db")}` : await postgres.createDatabase();
      const env = { EVENT_LOG_URL: url, RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true", SNAPSHOT_DIR: "off" };
      const service = await startServiceProcess(env, program);
      expect(service.stderr()).not.toContain("no image library");
      await eventually(
        "a picture has previews",
        async () => {
          const [first] = await listing(service, collections.plain.address);
          return first?.media.status === "success" ? true : undefined;
        },
        60_000,
      );
      await stopped(service);
    } finally {
      rmSync(modules, { recursive: true, force: true });
    }
  });
});
