/**
 * The AsyncAPI document and `/llms.txt`: the first is valid and describes every message of real subscriptions, the second
 * names every parameter, and its examples and links are answered.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import schema from "@asyncapi/specs/schemas/3.0.0.json";
import Ajv, { type ValidateFunction } from "ajv";
import WebSocket from "ws";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { operationsOf } from "../../src/api/app.ts";
import { documentValidator } from "../support/schemas.ts";
import {
  type Body,
  eventually,
  startTestService,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let nft: Deployed;
let service: TestService;
let document: Body;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Documents", "DOC"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1] as string, 1n]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  document = (await service.get("/asyncapi.json")).body;
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

/** A check for each message of a direction, by the word that names it. A field that the schema does not name is a fault. */
function checksOf(operation: "request" | "tell"): Map<string, ValidateFunction> {
  const validator = documentValidator(document);
  const messages: { $ref: string }[] = document.operations[operation].messages;
  return new Map(
    messages.map(({ $ref }) => {
      const { name, payload } = document.components.messages[$ref.slice($ref.lastIndexOf("/") + 1)];
      const check = validator.getSchema(`document${payload.$ref}`);
      if (check === undefined) throw new Error(`the document lacks ${payload.$ref}`);
      return [name as string, check as ValidateFunction];
    }),
  );
}

describe("the AsyncAPI document", () => {
  test("is valid by the schema of AsyncAPI 3.0.0", () => {
    // The schema contains draft 7 itself, which the validator would add a second time.
    const bundled = { meta: false, validateSchema: false, validateFormats: false };
    const ajv = new Ajv({ ...bundled, strict: false, allErrors: true, logger: false });
    const validate = ajv.compile(schema);
    validate(document);
    expect(validate.errors ?? []).toEqual([]);
    expect(document.servers.service).toMatchObject({ host: `127.0.0.1:${service.port}`, protocol: "ws" });
  });

  test("has an example of each message, valid by the message's schema", () => {
    for (const operation of ["request", "tell"] as const) {
      const checks = checksOf(operation);
      for (const { name, examples } of Object.values<Body>(document.components.messages)) {
        const check = checks.get(name);
        if (check === undefined) continue;
        expect([name, check(examples[0].payload), check.errors]).toEqual([name, true, null]);
      }
    }
  });

  test("describes every message of real subscriptions, each of them at least once", async () => {
    const checks = checksOf("tell");
    const socket = new WebSocket(service.socketUrl, { headers: { "X-Api-Key": TEST_KEY } });
    const messages: Body[] = [];
    socket.on("message", (data) => messages.push(JSON.parse(String(data))));
    await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
    const until = (type: string) =>
      eventually(`a message of type ${type}`, async () => messages.find((message) => message.type === type));
    const send = (message: object) => socket.send(JSON.stringify(message));

    send({ action: "subscribe", address: nft.address });
    await until("indexed");
    await transact(anvil, nft.contract, "mint", [anvil.accounts[2] as string, 2n]);
    await until("transfers");
    await until("metadata");
    await reorg(anvil, 1);
    await until("reorged");
    send({ action: "subscribe", address: anvil.accounts[3] });
    await until("failed");
    send({ action: "subscribe", chain: "nowhere", address: nft.address, since: "x" });
    await until("error");
    send({ action: "unsubscribe", address: nft.address });
    await until("unsubscribed");
    await placeMainnet(anvil);
    send({ action: "subscribe", token: MAINNET.usdc });
    await until("price");
    send({ action: "unsubscribe", token: MAINNET.usdc });
    send({ action: "ping" });
    await until("pong");
    socket.close();

    const nameOf = ({ type, token }: Body) => (type === "status" && token !== undefined ? "tokenStatus" : type);
    const wrong = messages.filter((message) => checks.get(nameOf(message))?.(message) !== true);
    expect(wrong).toEqual([]);
    const seen = new Set(messages.map(nameOf));
    expect([...checks.keys()].filter((type) => !seen.has(type) && type !== "progress")).toEqual([]);
  });

  test("names the public URL, its path, and the protocol with encryption", async () => {
    const env = { PUBLIC_URL: "https://nft.example.org/chain-data/" };
    const other = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    try {
      for (const path of ["/asyncapi.json", "/chain-data/asyncapi.json"]) {
        const { body, headers } = await other.get(path);
        expect(headers.get("cache-control")).toBe("no-cache");
        expect(body.servers.service).toMatchObject({
          host: "nft.example.org",
          pathname: "/chain-data",
          protocol: "wss",
        });
      }
      const page = await (await other.fetch("/chain-data/llms.txt")).text();
      expect(page).toContain("`GET https://nft.example.org/chain-data/api/v2/nft/{address}`");
      expect(page).toContain("`wss://nft.example.org/chain-data/api/v2/ws`");
    } finally {
      await other.stop();
    }
  });
});

describe("/llms.txt", () => {
  const page = async () => await (await service.fetch("/llms.txt", { headers: { "x-api-key": "" } })).text();

  test("begins with a title and a summary, and ends with links that are answered", async () => {
    const text = await page();
    expect(text).toMatch(/^# .+\n\n> .+\n\n/);
    const links = [...text.matchAll(/^- \[[^\]]+\]\(([^)]+)\): .+$/gm)].map(([, link]) => link as string);
    expect(links.length).toBe(3);
    for (const link of links) expect([link, (await fetch(link)).status]).toEqual([link, 200]);
  });

  test("names every parameter of the operations", async () => {
    const text = await page();
    const all = operationsOf(500).filter(({ isUpgrade, scope }) => scope !== undefined && isUpgrade !== true);
    const EXPLAINED = ["getContractNFTs", "getTokenPrice"];
    const missing = all.flatMap(({ id, method, path, query }) => {
      const shown = `${method} ${service.url}${path.replace(/:(\w+)/g, "{$1}")}\``;
      const lines = text.split("\n").filter((one) => one.includes(shown));
      const isNamed = (name: string) =>
        EXPLAINED.includes(id)
          ? text.includes(`\n- \`${name}\`: `)
          : lines.some((line) => line.includes(`\`${name}\``));
      return Object.keys(query)
        .filter((name) => isNamed(name) !== true)
        .map((name) => `${id} ${name}`);
    });
    expect(all.length).toBeGreaterThan(35);
    expect(missing).toEqual([]);
  });

  test("tells the chains and the limits of this server's configuration", async () => {
    const env = { MAX_PAGE_SIZE: "250", RATE_LIMIT_PER_MINUTE: "77", COLLECTIONS_PER_HOUR: "8" };
    const other = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    try {
      const text = await (await other.fetch("/llms.txt")).text();
      const limits = /## Limits\n\n([^#]+)/.exec(text)?.[1] ?? "";
      for (const words of [
        "`eth`",
        "77 per minute",
        "8 per hour",
        "at most 250 NFTs of a contract, 500 entries",
        "`cursor_reorged`",
      ])
        expect(limits).toContain(words);
      expect(limits).not.toContain("`polygon`");
      const { body } = await other.get(`/api/v2/nft/${nft.address}?chain=polygon`);
      expect(body.code).toBe("chain_not_enabled");
      for (const word of ["`/holders`", "`/tokens`", "`/transfers`"]) expect(text).toContain(word);
    } finally {
      await other.stop();
    }
  });

  test("has examples that the service takes", async () => {
    const examples = [...(await page()).matchAll(/curl -H 'X-API-Key: <key>' '([^']+)'/g)].map(([, url]) => url);
    expect(examples.length).toBe(2);
    for (const url of examples) {
      const { status } = await fetch(url as string, { headers: { "x-api-key": TEST_KEY } });
      // The local chain has none of the examples' contracts. A request that is wrong in itself would be a 400.
      expect([200, 404]).toContain(status);
    }
  });
});
