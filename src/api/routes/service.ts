/** The operations on the service itself: its status, health and metrics, and the path of the socket. */
import { timingSafeEqual } from "node:crypto";
import { Type } from "@sinclair/typebox";
import { Refusal } from "../../core/errors.ts";
import type { Metrics } from "../../core/metrics.ts";
import { int64, named, nullableText, oneOf, text, withExample } from "../../core/schema-parts.ts";
import { StatusReport } from "../../operators/models.ts";
import type { ServiceStatus } from "../../operators/status.ts";
import { bearerToken, ProtocolRefusal } from "../wire/answers.ts";
import { errorExample } from "../wire/errors.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { API_PREFIX } from "../wire/paths.ts";

const Health = named("Health", Type.Object({ status: oneOf(["live", "ready"], "State of the process") }));

interface ServiceDeps {
  readonly version: string;
  readonly commit: string | null;
  /** Schema of the event log that this release writes. */
  readonly logSchema: number;
  readonly status: ServiceStatus;
  readonly metrics: Metrics;
  /** SHA-256 of the key that `/metrics` requires, if there is one. */
  readonly metricsKeyHash: Uint8Array | undefined;
  /** True while this process is behind the event log. */
  readonly isBehind: () => boolean;
  /** True once the service has begun to stop. */
  readonly isStopping: () => boolean;
}

const { json, file } = operationsFor<ServiceDeps>();

/** Checks the key of the metrics. @param expected SHA-256 of the key. @throws Refusal 401 */
function assertMetricsKey(expected: Uint8Array, { headers }: Request): void {
  const key = bearerToken(headers) ?? headers.get("x-api-key");
  if (!key) throw new Refusal("missing_api_key", "API KEY missing from x-api-key header");
  if (timingSafeEqual(expected, Bun.SHA256.hash(key.slice(0, 256)) as Uint8Array)) return;
  throw new Refusal("invalid_api_key", "x-api-key: the API key is not valid on this server");
}

export const SERVICE_OPERATIONS: readonly Operation<ServiceDeps>[] = [
  json({
    method: "GET",
    path: "/health/live",
    scope: undefined,
    id: "live",
    summary: "Liveness: the process answers",
    tag: "Service",
    answer: Health,
    errors: [],
    handle: async () => ({ body: { status: "live" } as const }),
  }),
  json({
    method: "GET",
    path: "/health/ready",
    scope: undefined,
    id: "ready",
    summary: "Readiness: the event log answers, and this process has read it up to now",
    tag: "Service",
    answer: withExample(Health, { status: "ready" }),
    errors: [503],
    errorExamples: { 503: errorExample("starting", "the event log is not open yet; try again") },
    handle: async (_asked, { isBehind, isStopping }) => {
      const soon = { retryAfter: 1 };
      if (isStopping()) throw new Refusal("starting", "the service is stopping", soon);
      if (isBehind()) throw new Refusal("log_unavailable", "this process is behind the event log", soon);
      return { body: { status: "ready" } as const };
    },
  }),
  file({
    method: "GET",
    path: "/metrics",
    scope: undefined,
    id: "metrics",
    summary: "Prometheus metrics",
    tag: "Service",
    content: {
      "text/plain": {
        schema: { type: "string" },
        example: 'http_request_duration_seconds_count{route="nft",status="200"} 42\n',
      },
    },
    errors: [401],
    handle: async ({ request }, { metrics, metricsKeyHash }) => {
      if (metricsKeyHash !== undefined) assertMetricsKey(metricsKeyHash, request);
      return new Response(await metrics.text(), { headers: { "content-type": metrics.registry.contentType } });
    },
  }),
  file({
    method: "GET",
    path: `${API_PREFIX}/ws`,
    scope: "read",
    id: "subscribe",
    summary: "WebSocket channel",
    description:
      "Upgrade to a WebSocket. Send the key in the header or, from a browser, in the subprotocols evm.v2 and apikey.<key>. Send {action: subscribe, chain, address, since?}; since is the resume of the last message, and what was missed is sent again. The server sends status, progress, indexed, transfers, metadata, reorged and failed. With token in place of address, and minChangePercent?, it sends status, and price at first and at each change. All messages with their schemas: /asyncapi.json. A connection and each subscribe take a request of the key's rate. A key may hold a quarter of the connections of a process, one of scope operate a half; beyond that the upgrade is refused with 429.",
    tag: "Push",
    isUpgrade: true,
    content: {},
    errors: [400, 426],
    handle: async () => {
      const headers = { upgrade: "websocket", connection: "Upgrade" };
      throw new ProtocolRefusal("upgrade_required", "this path is a WebSocket: send an upgrade request", headers);
    },
  }),
  json({
    method: "GET",
    path: "/api/version",
    scope: "read",
    id: "getVersion",
    summary: "What this process runs: release, commit and schema of the event log",
    tag: "Service",
    answer: named(
      "Version",
      Type.Object({
        version: text("Release", "1.1.0"),
        commit: nullableText("Commit of the sources, as far as the process knows it"),
        schema: int64("Schema of the event log that it writes. An older release refuses a newer schema", 3),
      }),
    ),
    errors: [],
    handle: async (_asked, { version, commit, logSchema: schema }) => ({ body: { version, commit, schema } }),
  }),
  json({
    method: "GET",
    path: "/api/status",
    scope: "operate",
    id: "getStatus",
    summary: "State of the service: log, leases, chains with their endpoints, collections by status",
    tag: "Operators",
    answer: StatusReport,
    errors: [],
    handle: async (_asked, { status }) => ({ body: await status.report() }),
  }),
];
