/**
 * Uses every command of the program as an operator would, against a real chain, and compares what it prints with
 * `src/cli/transcript.md`. `RECORD=1` writes the page anew. Each `--json` is checked by its schema.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TSchema } from "elysia";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { seedCollections } from "../../scripts/local-chain/collections.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import { runCli } from "../support/cli.ts";
import { freePort } from "../support/postgres.ts";
import { documentValidator } from "../support/schemas.ts";
import { eventually, startTestService, temporaryLogUrl } from "../support/service.ts";
import { type Place, type Shape, STEPS, type Step } from "../support/transcript-steps.ts";

const ROOT = join(import.meta.dir, "../..");
const PAGE = join(ROOT, "src/cli/transcript.md");
/** Lines of a long output that the page shows. */
const MOST_LINES = 20;
const KEY = "operator-key-0123456789";
const ZERO = "0x0000000000000000000000000000000000000000";

let anvil: Anvil;
let place: Place;
let folder: string;
/** What each step printed, in the order of `STEPS`. */
const printed: string[] = [];
const faults: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "transcript-"));
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 8 * 3_600 });
  await placeMainnet(anvil);
  const { demo } = await seedMarket(anvil, { hours: 4 });
  const { plain, batch } = await seedCollections(anvil);
  // Deep enough that the whole history is final.
  await anvil.mine(70);
  place = { editions: plain.address, items: batch.address, demo: demo.address };
  await Bun.write(join(folder, "contracts.txt"), `${plain.address}\neth,${batch.address}\n${ZERO}\n`);
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  validator = documentValidator((await service.get("/swagger/json")).body);
  await service.stop();
  await useAll();
});
afterAll(async () => {
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const environment = () => ({
  ...{ EVENT_LOG_URL: "sqlite://./events.db", RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true" },
  // Another program of this machine may have the default port.
  PORT: String(freePort()),
  ...{ OPERATOR_KEYS: KEY, SERVICE_KEY: KEY, FOLLOW_EVERY_ETH: "0", METADATA_ALLOW_PRIVATE: "true", TMPDIR: folder },
});

/** Carries the steps out, with a service beside those that need one. */
async function useAll(): Promise<void> {
  let service: Awaited<ReturnType<typeof serve>> | undefined;
  for (const step of STEPS) {
    if (step.name === "serve") {
      service = await serve();
      printed.push(service.shown);
      continue;
    }
    if (step.way === "stopped") {
      await service?.stop();
      service = undefined;
    }
    const way = step.way === "url" ? ["--url", service?.base as string] : [];
    const words = step.words?.(place) ?? [];
    const { code, out, err } = await runCli([step.name, ...words, ...way], environment(), folder);
    if (code !== 0) faults.push(`${step.name} ${words.join(" ")}: exit code ${code}: ${err}${out}`);
    printed.push(out.trimEnd());
    if (step.json === undefined) continue;
    const jsonWords = step.jsonWords?.(place) ?? words;
    const json = await runCli([step.name, ...jsonWords, ...way, "--json"], environment(), folder);
    faults.push(...jsonFaults(step.json, json.out).map((fault) => `${step.name} --json: ${fault}`));
  }
  await service?.stop();
}

/** Starts the service in a terminal, and returns what it shows until it serves and has tried its endpoint. */
async function serve() {
  let output = "";
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "serve"], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", ...environment() },
    terminal: {
      ...{ cols: 160, rows: 40 },
      data: (_terminal, bytes) => {
        output += Buffer.from(bytes).toString();
      },
    },
  });
  const text = () => Bun.stripANSI(output).replaceAll("\r", "");
  const base = await eventually("it serves and has tried its endpoint", async () =>
    /✓ chain 1\b/.test(text()) ? /serving (\S+)\/api\/v2/.exec(text())?.[1] : undefined,
  );
  await eventually("it has counted the tokens", async () => {
    const answer = await fetch(`${base}/api/collections?status=following`, { headers: { "x-api-key": KEY } });
    const { result } = (await answer.json()) as { result: { nfts: number | null }[] };
    return result.every(({ nfts }) => nfts !== null) ? true : undefined;
  });
  const stop = () => {
    child.kill("SIGTERM");
    return child.exited;
  };
  return { base, stop, shown: text().trimEnd() };
}

let validator: ReturnType<typeof documentValidator>;

/** Compares JSON with the schema that the page names for it. */
function jsonFaults(shape: Shape, out: string): string[] {
  const value: unknown = JSON.parse(out);
  if ("own" in shape) return validator.validate(shape.own, value) ? [] : [validator.errorsText()];
  const found: string[] = [];
  for (const one of shape.isList === true ? (value as object[]) : [value as object]) {
    const rest = Object.fromEntries(Object.entries(one).filter(([name]) => !shape.add?.includes(name)));
    const validate = validator.getSchema(`document#/components/schemas/${shape.schema}`);
    if (validate === undefined) throw new Error(`the document has no schema ${shape.schema}`);
    validate(rest);
    const wrong = (validate.errors ?? []).filter(
      ({ keyword, params }) => keyword !== "required" || !shape.omit?.includes(params["missingProperty"]),
    );
    found.push(...wrong.map(({ instancePath, message }) => `${instancePath} ${message}`));
  }
  return found;
}

/** Takes out ports, folders and keys, and the middle of a long output. */
function shown(output: string): string {
  const lines = output
    .replace(/npx --yes bun@[\d.]+ run cli/g, "bun run cli")
    .replaceAll(folder, ".")
    .replaceAll(anvil.url, "http://localhost:8545")
    .replace(/(?:127\.0\.0\.1|localhost):\d{4,5}/g, "localhost:3000")
    .replace(/\b[\w-]{43}\b(?=\n\nThis is the key)/g, "<the key>")
    .split("\n");
  if (lines.length <= 2 * MOST_LINES) return lines.join("\n");
  return [...lines.slice(0, MOST_LINES), "…", ...lines.slice(-1)].join("\n");
}

/** Takes out what differs from one run to the next. */
function masked(page: string): string {
  return page
    .replace(/\d{4}-\d\d-\d\dT[\d:.-]+Z/g, "<time>")
    .replace(/\[\d\d:\d\d:\d\d\]/g, "<time>")
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b/g, "<instance>")
    .replace(/\b(0x)?[0-9a-f]{64}\b/g, "<hash>")
    .replace(/\b\d[\d,.]* (?:ms|s|[KMGT]?B)\b/g, "<measured>")
    .replace(/\b[\d,]+ (?=(?:calls|(?:compute )?units|events|blobs)\b)/g, "<count> ")
    .replace(/(?<=\/0x[0-9a-f]{40} )v\d+\b/g, "<version>")
    .replace(/(?<=^(?:chain\/1|keys\/api|prices\/1) )v\d+\b/gm, "<version>")
    .replace(/ (?:heads=\d+ last|prices=\d+ recomputed)=\w+$/gm, "")
    .replace(/(?<=30-minute average )[\d.]+/g, "<average>")
    .replace(/(?<=^eth .* complete +\d+ +\d+) +\d+ +(?=<measured>)/gm, " <calls> ")
    .replace(/(?<=^OPERATOR_KEYS#1 .*) (?:–|<time>)$/gm, " <last use>")
    .replace(/ +/g, " ");
}

function commandLine({ name, words, way }: Step): string {
  const url = way === "url" ? " --url http://localhost:3000" : "";
  return `bun run cli ${[name, ...(words?.(place) ?? [])].join(" ")}${url}`;
}

function jsonText({ json }: Step): string {
  if (json === undefined) return "";
  if ("own" in json) return `\n\`--json\` prints ${fieldsText(json.own)}.\n`;
  const { schema, isList, omit = [], add } = json;
  const without = omit.length === 0 ? "" : `, without ${omit.map((name) => `\`${name}\``).join(", ")}`;
  const more = add === undefined ? "" : `, each with ${add.map((name) => `\`${name}\``).join(" and ")}`;
  return `\n\`--json\` prints ${isList === true ? "a list of " : ""}\`${schema}\` of the OpenAPI document${without}${more}.\n`;
}

function fieldsText({ type, items, properties = {} }: TSchema): string {
  if (type === "array") return fieldsText(items).replace("an object", "a list of objects");
  return `an object with ${Object.keys(properties)
    .map((name) => `\`${name}\``)
    .join(", ")}`;
}

const page = (): string => `# Every command and what it prints

\`test/cli/transcript.test.ts\` uses every command against a local chain, compares what it prints with this page, and
checks what \`--json\` prints by its schema. \`RECORD=1 bun test test/cli/transcript.test.ts\` writes the page anew.
\`SERVICE_KEY\` holds a key of scope \`operate\`, and \`contracts.txt\` three addresses.

${STEPS.map(section).join("\n")}`;

function section(step: Step, at: number): string {
  const heading = STEPS[at - 1]?.name === step.name ? "" : `## ${step.name}\n\n`;
  const output = `\`\`\`text\n$ ${commandLine(step)}\n${shown(printed[at] ?? "")}\n\`\`\`\n`;
  return `${heading}${step.text}\n\n${output}${jsonText(step)}`;
}

test("every command succeeds, and its JSON keeps to its schema", () => {
  expect(faults).toEqual([]);
});

test("the page has every command of the program", async () => {
  const help = (await runCli(["help"], {})).out;
  const names = [...help.matchAll(/^ {2}([a-z]+) {2,}/gm)].map(([, name]) => name as string);
  expect(names.length).toBeGreaterThan(10);
  const steps = new Set(STEPS.map(({ name }) => name));
  expect(names.filter((name) => !steps.has(name))).toEqual([]);
});

test("the page has what the program prints", async () => {
  if (process.env["RECORD"] === "1") await Bun.write(PAGE, page());
  expect(masked(page())).toBe(masked(await Bun.file(PAGE).text()));
});
