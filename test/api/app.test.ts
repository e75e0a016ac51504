/**
 * Everything that applies to all requests, without a collection: keys, rate limit, unknown paths, methods, health,
 * metrics, the OpenAPI document checked by an independent validator, its offline page, and a chain that doesn't answer.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { operationsOf } from "../../src/api/app.ts";
import { CONTRACT_CHAINS } from "../../src/chains/chains.ts";
import { LIMITS } from "../../src/config.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { type Body, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const ADDRESS = `0x${"ab".repeat(20)}`;
const NFT = `/api/v2/nft/${ADDRESS}`;
const PRICE = `/api/v2/erc20/${ADDRESS}/price`;

let service: TestService;
/** No server listens there. */
const DEAD = "http://127.0.0.1:9/secret-path";

beforeAll(async () => {
  service = await startTestService({
    rpcUrl: DEAD,
    logUrl: temporaryLogUrl(),
    env: { METRICS_KEY: "metrics-key-1", RATE_LIMIT_PER_MINUTE: "1000000" },
  });
});
afterAll(() => service.stop());

describe("an API key", () => {
  test("gets 401 with the hosted service's message if it is missing, and 401 if it is wrong", async () => {
    for (const path of [NFT, PRICE, "/api/v2/unknown", "/api/v2"]) {
      const response = await fetch(`http://127.0.0.1:${service.port}${path}`);
      expect(response.status).toBe(401);
      expect(await response.json()).toEqual({
        message: "API KEY missing from x-api-key header",
        code: "missing_api_key",
      });
    }
    const wrong = await service.get(NFT, { "x-api-key": `${TEST_KEY}x` });
    expect([wrong.status, wrong.body.code]).toEqual([401, "invalid_api_key"]);
    expect(JSON.stringify(wrong.body)).not.toContain(TEST_KEY);
  });

  test("is accepted in a header name of any case", async () => {
    const response = await fetch(`http://127.0.0.1:${service.port}${NFT}`, { headers: { "X-API-KEY": TEST_KEY } });
    expect(response.status).toBe(200);
  });
});

describe("the rate limit", () => {
  test("answers 429 with Retry-After when a key exceeds its bucket", async () => {
    const limited = await startTestService({
      rpcUrl: DEAD,
      logUrl: temporaryLogUrl(),
      env: { RATE_LIMIT_PER_MINUTE: "3", API_KEYS: `${TEST_KEY},second-key-1` },
    });
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await limited.get(NFT)).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    const answer = await limited.get(NFT);
    expect(answer.body).toEqual({ message: "Rate limit exceeded", code: "rate_limited" });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await limited.get(NFT, { "x-api-key": "second-key-1" })).status).toBe(200);
    await limited.stop();
  });
});

describe("a contract that was never requested, on a chain that does not answer", () => {
  test("gets 200 SYNCING with an empty result at once", async () => {
    const started = performance.now();
    const answer = await service.get(`${NFT}?disable_total=false`);
    expect(performance.now() - started).toBeLessThan(1_000);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      status: "SYNCING",
      total: "0",
      page: "0",
      page_size: "100",
      cursor: null,
      result: [],
    });
  });

  test("gets 503 for its price, without any detail of the endpoint", async () => {
    const answer = await service.get(PRICE);
    expect([answer.status, answer.body.code]).toEqual([503, "chain_unavailable"]);
    expect(JSON.stringify(answer.body)).not.toMatch(/secret|127\.0\.0\.1|http/);
  }, 300_000);

  test("gets 400 if the chain is known but not enabled", async () => {
    for (const path of [NFT, PRICE]) {
      const answer = await service.get(`${path}?chain=polygon`);
      expect([answer.status, answer.body.code]).toEqual([400, "chain_not_enabled"]);
      expect(answer.body.message).toBe("chain polygon is not enabled on this server; enabled: eth");
    }
  });
});

describe("a node that accepts a call and never answers", () => {
  test("leads to 503 before the client gives up", async () => {
    const held: (() => void)[] = [];
    let asked: () => void = () => undefined;
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const node = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => {
        asked();
        return new Promise<Response>((resolve) => held.push(() => resolve(new Response("no", { status: 400 }))));
      },
    });
    // The test decides when the time for an answer is over.
    let end: () => void = () => undefined;
    const clock: Clock = {
      ...systemClock,
      after: (ms, run) => {
        if (ms !== LIMITS.answerMs) return systemClock.after(ms, run);
        end = run;
        return () => undefined;
      },
    };
    const rpcUrl = `http://127.0.0.1:${node.port}/secret-path`;
    const waiting = await startTestService({ rpcUrl, logUrl: temporaryLogUrl(), clock });
    const answer = waiting.get(PRICE);
    await isAsked;
    end();
    const { status, headers, body } = await answer;
    expect([status, body.code]).toEqual([503, "chain_unavailable"]);
    expect(body.message).toBe("eth did not answer within 25 seconds; try again later");
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    for (const release of held) release();
    await waiting.stop();
    await node.stop(true);
  });

  test("leads to 503 soon, if no endpoint has answered for a minute", async () => {
    const held: (() => void)[] = [];
    let holds = false;
    const node = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => {
        const refusal = new Response("no", { status: 500 });
        return holds ? new Promise<Response>((resolve) => held.push(() => resolve(refusal))) : refusal;
      },
    });
    let passed = 0;
    const ends: Partial<Record<number, () => void>> = {};
    const isWaiting = Promise.withResolvers<void>();
    const clock: Clock = {
      ...systemClock,
      monotonic: () => systemClock.monotonic() + passed,
      after: (ms, run) => {
        if (ms !== LIMITS.answerMs && ms !== LIMITS.unreachableAnswerMs) return systemClock.after(ms, run);
        ends[ms] = run;
        if (holds) isWaiting.resolve();
        return () => undefined;
      },
    };
    const waiting = await startTestService({
      ...{ rpcUrl: `http://127.0.0.1:${node.port}`, logUrl: temporaryLogUrl(), clock },
    });
    expect((await waiting.get(PRICE)).status).toBe(503);
    passed = 61_000;
    holds = true;
    const answer = waiting.get(PRICE);
    await isWaiting.promise;
    ends[LIMITS.unreachableAnswerMs]!();
    const { status, headers, body } = await answer;
    expect([status, body.code, body.details]).toEqual([503, "chain_unavailable", { state: "unreachable" }]);
    expect(body.message).toBe("eth did not answer within 5 seconds; try again later");
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    for (const release of held) release();
    await waiting.stop();
    await node.stop(true);
  });
});

describe("a bad value of any parameter is a 400 that names the parameter", () => {
  const cases: [string, string][] = [
    ...["mars", "", "0x2", "ethh"].map((v): [string, string] => ["chain", v]),
    ...["Decimal", "HEX", "octal", ""].map((v): [string, string] => ["format", v]),
    ...["0", "-1", "-0", "501", "1e2", "0x10", "９", "1.5", " 1", "", "abc", "1e9"].map((v): [string, string] => [
      "limit",
      v,
    ]),
    ...["0", "1001", "x"].map((v): [string, string] => ["totalRanges", v]),
    ...["0", "-1", "x"].map((v): [string, string] => ["range", v]),
    ...["yes", "2", "T", ""].map((v): [string, string] => ["disable_total", v]),
    ...["AAAA", "x".repeat(2_000), "%00", "{}"].map((v): [string, string] => ["cursor", v]),
    ...["yes"].map((v): [string, string] => ["normalizeMetadata", v]),
    ...["yes"].map((v): [string, string] => ["media_items", v]),
    ...["-1", "1e3", "x", "99999999999999999999"].map((v): [string, string] => ["as_of_block", v]),
    ...["yes"].map((v): [string, string] => ["holders", v]),
    ...["2026-02-31T00:00:00Z", "2026-13-01T00:00:00Z", "2026-04-31T12:00:00+02:00", "2026-01-31"].map(
      (v): [string, string] => ["metadata_as_of", v],
    ),
  ];
  for (const [name, value] of cases) {
    test(`for a listing with ${name}=${value.slice(0, 30)}`, async () => {
      const answer = await service.get(`${NFT}?${name}=${encodeURIComponent(value)}`);
      expect(answer.status).toBe(400);
      expect(answer.body.code).toBe("invalid_parameter");
      expect(answer.body.message).toStartWith(`${name}: `);
      expect(answer.body.details.parameter).toBe(name);
    });
  }
  const prices: [string, string][] = [
    ["chain", "mars"],
    ["include", "everything"],
    ["include", ""],
    ["exchange", "nowhere"],
    ["to_block", "-1"],
    ["to_block", "1e3"],
    ["to_block", "pending"],
    ["to_time", "noon"],
    ["min_liquidity_usd", "-5"],
    ["min_liquidity_usd", "much"],
  ];
  for (const [name, value] of prices) {
    test(`for a price with ${name}=${value}`, async () => {
      const answer = await service.get(`${PRICE}?${name}=${encodeURIComponent(value)}`);
      expect([answer.status, answer.body.code]).toEqual([400, "invalid_parameter"]);
      expect(answer.body.message).toStartWith(`${name}: `);
    });
  }

  test("for a parameter given twice", async () => {
    for (const query of ["limit=1&limit=2", "chain=eth&chain=eth", "cursor=a&cursor=b"]) {
      const answer = await service.get(`${NFT}?${query}`);
      expect([answer.status, answer.body.details.parameter]).toEqual([400, query.slice(0, query.indexOf("="))]);
    }
  });

  test("for an unknown chain, and the message names the twelve chains", async () => {
    const { message } = (await service.get(`${NFT}?chain=mars`)).body;
    for (const { name, code } of CONTRACT_CHAINS) expect(message).toContain(`${name} (${code})`);
  });

  test("for a malformed address", async () => {
    for (const address of [
      "0x12",
      ADDRESS.slice(2),
      `${ADDRESS}00`,
      "vitalik.eth",
      "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13d",
      "%ff",
    ]) {
      for (const path of [`/api/v2/nft/${address}`, `/api/v2/erc20/${address}/price`]) {
        const answer = await service.get(path);
        expect([path, answer.status, answer.body.details?.parameter]).toEqual([path, 400, "address"]);
      }
    }
  });

  test("but not for a boolean in any case, or as a digit", async () => {
    for (const text of ["true", "True", "FALSE", "1", "0"]) {
      expect([text, (await service.get(`${NFT}?disable_total=${text}&holders=${text}`)).status]).toEqual([text, 200]);
    }
  });

  test("but not for a time zone as generated clients write it, with or without a colon", async () => {
    for (const zone of ["Z", "%2B02:00", "%2B0000", "-0330"]) {
      expect([zone, (await service.get(`${NFT}?metadata_as_of=2026-01-31T12:00:00.000000${zone}`)).status]).toEqual([
        zone,
        200,
      ]);
    }
  });

  test("but not for the 29th of February in a leap year", async () => {
    expect((await service.get(`${NFT}?metadata_as_of=2024-02-29T00:00:00Z`)).status).toBe(200);
  });

  test("for a cursor in a URL that is too long", async () => {
    const answer = await service.get(`${NFT}?cursor=${"a".repeat(9_000)}`);
    expect([answer.status, answer.body.details.parameter]).toEqual([400, "cursor"]);
  });

  test("but not for unknown parameters or any accept header", async () => {
    const answer = await service.get(`${NFT}?foo=bar&limit=1`, { accept: "text/plain" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toStartWith("application/json");
  });
});

describe("the service in general", () => {
  test("answers unknown paths with JSON and a request id", async () => {
    for (const [path, init] of [
      ["/nope", {}],
      ["/api/v2/nope", {}],
      ["/api/v2/nope", { method: "POST" }],
      ["/api/v2/nft/", {}],
    ] as const) {
      const response = await service.fetch(path, init);
      expect(response.status).toBe(404);
      expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
      expect(((await response.json()) as { code: string }).code).toBe("not_found");
    }
  });

  test("answers HEAD like GET, without the body", async () => {
    const get = await service.fetch(NFT);
    const head = await service.fetch(NFT, { method: "HEAD" });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
    expect(head.headers.get("etag")).toBe(get.headers.get("etag"));
    expect(Number(head.headers.get("content-length"))).toBe((await get.text()).length);
  });

  test("answers 304 if the client has the current entity tag", async () => {
    const { headers } = await service.get(NFT);
    expect(headers.get("cache-control")).toBe("private, no-cache");
    const again = await service.fetch(NFT, { headers: { "if-none-match": headers.get("etag") as string } });
    expect(again.status).toBe(304);
    expect(await again.text()).toBe("");
  });

  test("accepts an entity tag as a strong one, in a list, and as a star", async () => {
    const { headers } = await service.get(NFT);
    const etag = headers.get("etag") as string;
    expect(etag).toStartWith('W/"');
    for (const known of [etag.slice(2), `"other", ${etag.slice(2)}`, `${etag} , "other"`, "*"]) {
      expect((await service.fetch(NFT, { headers: { "if-none-match": known } })).status).toBe(304);
    }
    for (const other of ['"other"', `x${etag}`, etag.slice(3, -1), ""]) {
      expect((await service.fetch(NFT, { headers: { "if-none-match": other } })).status).toBe(200);
    }
  });

  test("lets pages of other origins send a key and read the answer, including errors", async () => {
    const asked = await fetch(`http://127.0.0.1:${service.port}${NFT}`, {
      method: "OPTIONS",
      headers: {
        origin: "https://app.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "x-api-key",
      },
    });
    expect(asked.status).toBe(204);
    expect(asked.headers.get("access-control-allow-origin")).toBe("*");
    expect(asked.headers.get("access-control-allow-headers")).toContain("x-api-key");
    expect(asked.headers.get("access-control-allow-methods")).toContain("GET");
    expect(asked.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    const keyless = await fetch(`http://127.0.0.1:${service.port}${NFT}`);
    for (const { headers } of [await service.fetch(NFT), await service.fetch(`${NFT}?limit=0`), keyless]) {
      expect(headers.get("access-control-allow-origin")).toBe("*");
      expect(headers.get("access-control-expose-headers")).toContain("x-as-of-block");
    }
    // Paths outside the API send no CORS headers.
    for (const path of ["/metrics", "/swagger"]) {
      const { status, headers } = await service.fetch(path, { headers: { authorization: "Bearer metrics-key-1" } });
      expect([path, status, headers.get("access-control-allow-origin")]).toEqual([path, 200, null]);
    }
  });

  test("lets them read every route of scope read, and send it a key, and no route of operators", async () => {
    for (const { method, path, parts, scope, isUpgrade } of operationsOf(500)) {
      if (scope === undefined || isUpgrade === true) continue;
      const target = path.replace(/:(\w+)/g, (_, name) => encodeURIComponent(String(parts[name]!.example)));
      const { headers } = await service.fetch(target, method === "GET" ? {} : { method, body: "{" });
      const origin = scope === "read" ? "*" : null;
      expect([method, path, headers.get("access-control-allow-origin")]).toEqual([method, path, origin]);
      if (scope !== "read") continue;
      const asked = await fetch(`http://127.0.0.1:${service.port}${target}`, { method: "OPTIONS" });
      expect([path, asked.status, asked.headers.get("access-control-allow-origin")]).toEqual([path, 204, "*"]);
      expect(asked.headers.get("access-control-allow-methods")).toContain(method);
      expect(asked.headers.get("access-control-allow-methods")).toContain("PUT");
      expect(asked.headers.get("access-control-allow-headers")).toContain("authorization");
    }
    for (const path of ["/swagger/json", "/asyncapi.json", "/llms.txt"]) {
      expect([path, (await service.fetch(path)).headers.get("access-control-allow-origin")]).toEqual([path, "*"]);
    }
  });

  test("takes a key as a bearer token, beside the header of its own", async () => {
    const as = async (headers: Record<string, string>) => {
      const response = await fetch(`http://127.0.0.1:${service.port}${NFT}`, { headers });
      return [response.status, ((await response.json()) as Body).code];
    };
    expect(await as({ authorization: `Bearer ${TEST_KEY}` })).toEqual([200, undefined]);
    expect(await as({ authorization: `bearer  ${TEST_KEY}` })).toEqual([200, undefined]);
    expect(await as({ "x-api-key": TEST_KEY, authorization: "Bearer another-key-0123" })).toEqual([200, undefined]);
    expect(await as({ authorization: "Bearer another-key-0123" })).toEqual([401, "invalid_api_key"]);
    for (const authorization of [`Basic ${btoa(`x:${TEST_KEY}`)}`, "Bearer", "Bearer ", TEST_KEY]) {
      expect(await as({ authorization })).toEqual([401, "missing_api_key"]);
    }
  });

  test("says that a parameter is deprecated where a request uses it, and where to read what to do", async () => {
    for (const query of ["disable_total=false", "disable_total=false&limit=0"]) {
      const { headers } = await service.get(`${NFT}?${query}`);
      expect(headers.get("deprecation")).toMatch(/^@\d{10}$/);
      const [, link] = /^<(.+)>; rel="deprecation"; type="text\/html"$/.exec(headers.get("link") ?? "") ?? [];
      expect(headers.get("sunset")).toBeNull();
      const page = await (await fetch(link!)).text();
      expect(page).toContain("<code>disable_total</code>");
    }
    // Also a cached answer.
    expect((await service.get(`${NFT}?disable_total=false`)).headers.get("deprecation")).toMatch(/^@\d{10}$/);
    const { headers } = await service.get(NFT);
    expect([headers.get("deprecation"), headers.get("link")]).toEqual([null, null]);
  });

  test("answers health checks without a key", async () => {
    const base = `http://127.0.0.1:${service.port}`;
    expect((await fetch(`${base}/health/live`)).status).toBe(200);
    expect((await fetch(`${base}/health/ready`)).status).toBe(200);
  });

  test("guards metrics by METRICS_KEY, and names no endpoint URL in them", async () => {
    expect((await service.fetch("/metrics")).status).toBe(401);
    const response = await service.fetch("/metrics", { headers: { authorization: "Bearer metrics-key-1" } });
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).toContain("http_request_duration_seconds_bucket");
    // Buckets are cumulative: each includes all lower ones, and the last equals the count.
    const series = (suffix: string) => [
      ...text.matchAll(
        new RegExp(`^http_request_duration_seconds_${suffix}\\{(.*)route="nft",status="401"\\} (\\S+)$`, "gm"),
      ),
    ];
    const buckets = series("bucket").map(([, , value]) => Number(value));
    expect(buckets).toEqual([...buckets].sort((a, b) => a - b));
    expect(buckets.at(-1)).toBe(Number(series("count")[0]?.[2]));
    expect(Number(series("sum")[0]?.[2])).toBeGreaterThan(0);
    expect(text).toContain('rpc_requests_total{endpoint="eth#1"');
    expect(text).not.toMatch(/secret-path|127\.0\.0\.1/);
  });

  test("serves an OpenAPI document of version 2.0 of the API, which an independent validator accepts", async () => {
    const document = (await service.get("/swagger/json")).body;
    const result = await new Validator().validate(document);
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(document.openapi).toStartWith("3.");
    expect(document.info.version).toBe("2.0");
    // The document test counts the operations, so that a further one changes nothing here.
    const contract = [
      "/api/collections",
      "/api/collections/{chain}/{address}",
      "/api/collections/{chain}/{address}/estimate",
      "/api/collections/{chain}/{address}/export",
      "/api/collections/{chain}/{address}/holders",
      "/api/collections/{chain}/{address}/refresh",
      "/api/collections/{chain}/{address}/reindex",
      "/api/collections/{chain}/{address}/tokens",
      "/api/collections/{chain}/{address}/tokens/{id}",
      "/api/collections/{chain}/{address}/tokens/{id}/transfers",
      "/api/collections/{chain}/{address}/traits",
      "/api/collections/{chain}/{address}/transfers",
      "/api/keys",
      "/api/keys/{name}",
      "/api/keys/{name}/rotate",
      "/api/prices/{chain}/{address}/series",
      "/api/status",
      "/api/tokens",
      "/api/v2/erc20/prices",
      "/api/v2/erc20/{address}/price",
      "/api/v2/nft/{address}",
      "/api/v2/ws",
      "/health/live",
      "/health/ready",
      "/media/{hash}/{size}",
      "/metrics",
    ];
    expect(contract.filter((path) => document.paths[path] === undefined)).toEqual([]);
    const total = document.paths["/api/v2/nft/{address}"].get.parameters.find(
      (parameter: { name: string }) => parameter.name === "disable_total",
    );
    expect(total.deprecated).toBe(true);
  });

  test("answers as the document describes", async () => {
    const { components, paths } = (await service.get("/swagger/json")).body;
    const schemaOf = (path: string, status: string) =>
      paths[path].get.responses[status].content["application/json"].schema.$ref.split("/").at(-1);
    expect(schemaOf("/health/ready", "503")).toBe("ErrorBody");
    const { NftPage, NftRecord } = components.schemas;
    for (const { properties } of [NftPage, NftRecord]) {
      for (const [name, schema] of Object.entries<Record<string, unknown>>(properties)) {
        expect([name, "type" in schema || "oneOf" in schema]).toEqual([name, true]);
      }
    }
  });

  test("serves script and style of the document's page itself, and no other page", async () => {
    expect((await service.fetch("/swagger/plugin")).status).toBe(404);
    expect((await service.fetch("/swagger/plugin/")).status).toBe(404);
    const page = await (await service.fetch("/swagger")).text();
    const links = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] as string);
    const own = links.filter((link) => !link.startsWith("data:"));
    expect(own).toHaveLength(4);
    for (const link of own) {
      expect(link).toStartWith("/swagger/");
      const asset = await service.fetch(link);
      expect(asset.status).toBe(200);
      expect((await asset.text()).length).toBeGreaterThan(50);
    }
  });
});
