/**
 * An endpoint and an archive that quote everything that they received in each refusal, plain and encoded. None of it may
 * reach an answer, a message of the channel, the log of the process, the event log, `doctor` or the metrics.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, createServer as createSocketServer, type Server as SocketServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { createLogger, silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { ENCODINGS } from "../support/encodings.ts";
import { eventually, startTestService, type TestService } from "../support/service.ts";
import { connect } from "../support/socket.ts";

const OPERATOR_KEY = "operator-key-0123456789";
const [USER, PASSWORD, KEY, TOKEN, ARCHIVE_KEY] = [
  "op-user-77",
  "pass/w?rd-88",
  "key-in-path-0123456789",
  "token of query",
  "archive-key-0123456789",
];
const SECRETS = [USER, PASSWORD, KEY, TOKEN, ARCHIVE_KEY, `${USER}:${PASSWORD}`];
/** Every form of every secret. */
const NEEDLES = SECRETS.flatMap((secret) => Object.values(ENCODINGS).map((encode) => encode(secret)));

const folder = mkdtempSync(join(tmpdir(), "echoes-"));
const logUrl = `sqlite://${join(folder, "events.db")}`;
let anvil: Anvil;
let nft: Deployed;
let node: Server;
let archive: Server;
let service: TestService;
let env: Record<string, string>;
const lines: string[] = [];
let echoes = 0;

/** What was received, in another form at each call. */
function echoOf({ url = "", headers }: IncomingMessage, body: string): string {
  const login = headers.authorization?.slice("Basic ".length) ?? "";
  const parts = [login, Buffer.from(login, "base64").toString(), ...url.split(/[/?&=]/), String(headers["x-api-key"])];
  const encodings = Object.values(ENCODINGS);
  const encode = encodings[echoes++ % encodings.length] as (text: string) => string;
  return `refused ${parts.map(encode).join(" ")} ${encode(JSON.stringify({ url, headers, body }))}`;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

async function listen(server: Server | SocketServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** Passes calls on to anvil, and refuses those for logs and receipts. */
const echoingNode = (): Server =>
  createServer(async (request, response) => {
    const body = await textOf(request);
    const calls = [JSON.parse(body)].flat() as { id: number; method: string }[];
    const answers = await Promise.all(
      calls.map(async (call) => {
        const message = echoOf(request, body);
        if (/getLogs|Receipt/.test(call.method))
          return { jsonrpc: "2.0", id: call.id, error: { code: -32_000, message } };
        return (
          await fetch(anvil.url, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify(call),
          })
        ).json();
      }),
    );
    response.end(JSON.stringify(body.startsWith("[") ? answers : answers[0]));
  });

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Echo", "ECHO"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(80);
  node = echoingNode();
  archive = createServer(async (request, response) => {
    response.statusCode = 403;
    response.end(echoOf(request, await textOf(request)));
  });
  const login = `${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}`;
  const rpcUrl = `http://${login}@127.0.0.1:${await listen(node)}/v2/${KEY}?token=${encodeURIComponent(TOKEN)}`;
  env = {
    OPERATOR_KEYS: OPERATOR_KEY,
    ARCHIVE_URL_ETH: `http://127.0.0.1:${await listen(archive)}/datasets/x`,
    ARCHIVE_KEY_ETH: ARCHIVE_KEY,
    RPC_URL_ETH: rpcUrl,
  };
  const logger = createLogger("debug", { write: (line) => void lines.push(line) });
  service = await startTestService({ rpcUrl, logUrl, env, logger });
});

afterAll(async () => {
  await service?.stop();
  node?.close();
  archive?.close();
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Fails with the first form of a secret that is in a text. */
function expectClean(what: string, text: string): void {
  const found = NEEDLES.find((needle) => text.includes(needle));
  expect([what, found, found === undefined ? "" : text.slice(0, 3_000)]).toEqual([what, undefined, ""]);
}

test("an endpoint's and an archive's echo of their secrets reaches no client, operator or log", async () => {
  const { messages, send, socket } = await connect(service);
  send({ action: "subscribe", chain: "eth", address: nft.address });
  await service.get(`/api/v2/nft/${nft.address}`);
  const said = new Set<string>();
  // Each attempt is refused in another form.
  await eventually(
    "the collection has failed several times",
    async () => {
      const { body } = await service.get(`/api/collections/eth/${nft.address}`);
      if (body.lastError !== null && body.lastError !== undefined) said.add(JSON.stringify(body));
      return said.size >= 2 && messages.some(({ type }) => type === "failed") ? true : undefined;
    },
    60_000,
  );
  expectClean("the collection's row", [...said].join("\n"));
  expect([...said].join("\n")).toContain("[redacted]");
  expectClean("messages of the channel", JSON.stringify(messages));
  for (const path of ["/api/status", "/api/collections", "/metrics", `/api/v2/nft/${nft.address}`, "/health/ready"]) {
    const answer = await service.fetch(path, { headers: { "x-api-key": OPERATOR_KEY } });
    expectClean(path, await answer.text());
  }
  socket.terminate();
  await service.stop();
  expectClean("the log of the process", lines.join(""));
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(nftStream(1, nft.address as Address));
  await log.close();
  expect(events.some(({ event }) => JSON.stringify(event, plain).includes("[redacted]"))).toBe(true);
  expectClean("the event log", JSON.stringify(events, plain));
  for (const name of readdirSync(folder)) {
    if (name.startsWith("events.db")) expectClean(name, readFileSync(join(folder, name), "latin1"));
  }
  const doctor = await runCli(["doctor"], { ...env, EVENT_LOG_URL: logUrl, RPC_URLS_ONLY: "true", PORT: "0" });
  expect(doctor.out).toContain("[redacted]");
  expectClean("doctor", doctor.out + doctor.err);
}, 300_000);

test("a proxy's echo of its login reaches no answer, and neither does a server's of PostgreSQL", async () => {
  const form = (text: string) =>
    Object.values(ENCODINGS)
      .map((encode) => encode(text))
      .join(" ");
  const echo = createServer((request, response) => {
    const login = String(request.headers["proxy-authorization"] ?? "").replace("Basic ", "");
    response.statusCode = 502;
    // The first half of the text that is shown.
    response.end(`no way for ${login} ${Buffer.from(login, "base64")} ${encodeURIComponent(PASSWORD)}`);
  });
  // Answers every first message with a fault, in the protocol of PostgreSQL.
  const database = createSocketServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => {
      const fields = `SFATAL\0C28P01\0Mno login ${form(PASSWORD)}\0\0`;
      const head = Buffer.alloc(5);
      head.write("E");
      head.writeInt32BE(4 + Buffer.byteLength(fields), 1);
      socket.end(Buffer.concat([head, Buffer.from(fields)]));
    });
  });
  const login = `${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}`;
  const ports = [await listen(echo), await listen(database)];
  try {
    const env = {
      HTTP_PROXY: `http://${login}@127.0.0.1:${ports[0]}`,
      RPC_URL_ETH: "http://node.example.org/",
      EVENT_LOG_URL: `postgres://${login}@127.0.0.1:${ports[1]}/evm`,
      ...{ RPC_URLS_ONLY: "true", ARCHIVE_URL_ETH: "off", PORT: "0" },
    };
    const doctor = await runCli(["doctor"], env);
    expect(doctor.out).toMatch(/no way for \[redacted\]/);
    expect(doctor.out).toMatch(/EVENT_LOG_URL: .*no login \[redacted\]/);
    // The name of the database's user is no secret.
    for (const shown of [doctor, await runCli(["serve"], env), await runCli(["verify"], env)]) {
      const text = shown.out + shown.err;
      expect(text).not.toBe("");
      const forms = [PASSWORD, `${USER}:${PASSWORD}`].flatMap((one) =>
        Object.values(ENCODINGS).map((encode) => encode(one)),
      );
      expect(forms.filter((one) => text.includes(one))).toEqual([]);
    }
  } finally {
    echo.close();
    database.close();
  }
}, 300_000);

const plain = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);
