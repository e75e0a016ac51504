/** The metrics that operators watch, and the dashboard and alerts over them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const DEPLOY = join(import.meta.dir, "../../scripts/deploy");
const OPERATOR_KEY = "operator-key-0123456789";
const METRICS_KEY = "metrics-key-0123456789";

let service: TestService;
beforeAll(async () => {
  const env = { METRICS_KEY, OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
});
afterAll(() => service?.stop());

const scrape = async (): Promise<string> =>
  (await service.fetch("/metrics", { headers: { "x-api-key": METRICS_KEY } })).text();

test("count collections by status, the queue, the log's bytes, the version and the uses of keys", async () => {
  // An operator's request is recorded at once, also without an endpoint.
  await service.get(`/api/v2/nft/0x${"12".repeat(20)}`, { "x-api-key": OPERATOR_KEY });
  await service.get(`/api/v2/nft/0x${"13".repeat(20)}`);
  const text = await scrape();
  const value = (series: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`${series} `))
        ?.split(" ")
        .at(-1),
    );
  expect(value('collections{status="requested"}') + value('collections{status="failing"}')).toBe(1);
  expect([value("indexing_queue"), value("log_writable")]).toEqual([1, 1]);
  expect(value("log_bytes")).toBeGreaterThan(4_096);
  expect(value("log_free_bytes")).toBeGreaterThan(0);
  expect(value('api_key_requests_today{key="API_KEYS#1"}')).toBeGreaterThan(0);
  expect(value("process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
  expect(text).toMatch(/build_info\{version="\d+\.\d+\.\d+"\} 1/);
  expect(text).not.toContain(TEST_KEY);
});

test("name no key without a key of their own", async () => {
  const open = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  await open.get(`/api/v2/nft/0x${"12".repeat(20)}`);
  const text = await (await open.fetch("/metrics")).text();
  expect(text).not.toContain("API_KEYS#1");
  await open.stop();
});

/** Words of PromQL that stand where names of metrics stand. */
const FUNCTIONS = new Set(
  "sum min max count by rate increase histogram_quantile predict_linear and or on unless le without ignoring offset h".split(
    " ",
  ),
);

/** The names of metrics in a query. */
function metricsOf(query: string): string[] {
  const plain = query
    .replace(/\{[^}]*\}/g, "")
    .replace(/\bby \([^)]*\)/g, "")
    .replace(/\[[^\]]*\]/g, "");
  return [...plain.matchAll(/[a-z_][a-z0-9_]*/g)].map(([name]) => name).filter((name) => !FUNCTIONS.has(name));
}

test("have every name that the dashboard and the alerts query", async () => {
  const known = new Set([...(await scrape()).matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1] as string));
  const dashboard = JSON.parse(readFileSync(join(DEPLOY, "grafana.json"), "utf8")) as {
    readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const alerts = Bun.YAML.parse(readFileSync(join(DEPLOY, "alerts.yml"), "utf8")) as {
    readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
  };
  const queries = [
    ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
    ...alerts.groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => [alert, expr] as const)),
  ];
  expect(queries.length).toBeGreaterThan(35);
  for (const [where, query] of queries) {
    const names = metricsOf(query).map((name) => name.replace(/_(?:bucket|sum|count)$/, ""));
    expect([where, names.length > 0, names.filter((name) => !known.has(name))]).toEqual([where, true, []]);
  }
});
