/** The environment variables: defaults, every key, and one report of all errors. */
import { describe, expect, test } from "bun:test";
import { CHAINS } from "../src/chains/chains.ts";
import { type Config, ConfigError, readConfig, secretsIn } from "../src/config.ts";
import { parseGateway } from "../src/core/gateway.ts";
import { spawnService, startServiceProcess } from "./support/process.ts";
import { temporaryLogUrl } from "./support/service.ts";

const problemsOf = (environment: Record<string, string>): readonly string[] => {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    return error instanceof ConfigError ? error.problems : [`threw ${error}`];
  }
};

describe("the environment", () => {
  test("uses the documented defaults and the published endpoints of every chain when no variable is set", () => {
    const config = readConfig({});
    expect(config).toMatchObject({
      host: "127.0.0.1",
      port: 3000,
      eventLogUrl: "sqlite://./data/events.db",
      apiKeys: [],
      maxPageSize: 500,
      wireTypes: "seed",
      logLevel: "info",
    });
    // A chain without a published endpoint is enabled by the operator's.
    const published = CHAINS.filter(({ endpoints }) => endpoints.length > 0);
    expect(config.chains.map(({ chain }) => chain.name)).toEqual(published.map(({ name }) => name));
    const withOwn = readConfig({ RPC_URL_ROBINHOOD: "http://a.example" });
    expect(withOwn.chains.map(({ chain }) => chain.name)).toContain("robinhood");
  });

  test("reads several endpoints, chains switched off, chains limited to the given endpoints, and a finality depth", () => {
    const config = readConfig({
      RPC_URL_ETH: "http://a.example, wss://b.example",
      RPC_URL_BSC_TESTNET: "http://c.example",
      RPC_URL_POLYGON: "off",
      FINALITY_DEPTH_ETH: "12",
      RPC_URLS_ONLY: "true",
    });
    expect(
      config.chains.map(({ chain, urls, finalityDepth, depthIsSet }) => [
        chain.name,
        urls.length,
        finalityDepth,
        depthIsSet,
      ]),
    ).toEqual([
      ["eth", 2, 12, true],
      ["bsc testnet", 1, 32, false],
    ]);
    expect(readConfig({ RPC_URL_POLYGON: "off" }).chains.map(({ chain }) => chain.name)).not.toContain("polygon");
  });

  test("reads the store of blobs, and names what is missing or wrong without its value", () => {
    const keys = { AWS_ACCESS_KEY_ID: "AKIAEXAMPLE0123456789", AWS_SECRET_ACCESS_KEY: "secret/with+signs0123456789" };
    expect(readConfig(keys).blobs).toBeUndefined();
    const config = readConfig({ ...keys, BLOB_URL: "s3://blobs-of-mine/evm/main", AWS_REGION: "eu-central-1" });
    expect(config.blobs).toMatchObject({
      ...{ bucket: "blobs-of-mine", prefix: "evm/main/", region: "eu-central-1" },
      endpoint: "https://s3.eu-central-1.amazonaws.com",
    });
    expect(secretsIn(config).redact(`refused: ${encodeURIComponent(keys.AWS_SECRET_ACCESS_KEY)}`)).toBe(
      "refused: [redacted]",
    );
    expect(problemsOf({ BLOB_URL: "s3://blobs/x" })).toEqual(["AWS_ACCESS_KEY_ID: must be set, because BLOB_URL is"]);
    for (const url of [
      "s3://",
      "s3://UPPER/x",
      "s3://blobs/../x",
      "https://blobs.example/x",
      "s3://key:secret@blobs/x",
    ])
      expect(problemsOf({ ...keys, BLOB_URL: url })).toEqual([
        "BLOB_URL: must be s3://<bucket>/<prefix>; the endpoint and the keys are variables of their own",
      ]);
    const wrong = { ...keys, BLOB_URL: "s3://blobs/x", S3_ENDPOINT: "https://user:password@store.example" };
    expect(problemsOf(wrong)).toEqual([
      "S3_ENDPOINT: must be the http or https URL of an S3 store, without a login or query",
    ]);
  });

  test("keeps snapshots beside a SQLite log, in the data folder with PostgreSQL, in a given folder, or nowhere", () => {
    const dirOf = (environment: Record<string, string>) => readConfig(environment).snapshotDir;
    expect(dirOf({})).toBe("./data/events.db.snapshots");
    expect(dirOf({ EVENT_LOG_URL: "postgres://u:p@h/d" })).toBe("./data/snapshots");
    expect(dirOf({ SNAPSHOT_DIR: "/var/cache/nfts" })).toBe("/var/cache/nfts");
    expect(dirOf({ SNAPSHOT_DIR: "off" })).toBeUndefined();
  });

  test("strips slashes and paths from the ends of gateway URLs, and allows private addresses only if set", () => {
    expect(readConfig({ IPFS_GATEWAYS: "https://a.example/ipfs/, http://10.0.0.1:8080/" })).toMatchObject({
      ipfsGateways: ["https://a.example", "http://10.0.0.1:8080"],
      metadataAllowPrivate: false,
    });
    expect(readConfig({ METADATA_ALLOW_PRIVATE: "TRUE" }).metadataAllowPrivate).toBe(true);
    expect(readConfig({ ARWEAVE_GATEWAYS: "https://a.example//,http://10.0.0.1:1984/" }).arweaveGateways).toEqual([
      "https://a.example",
      "http://10.0.0.1:1984",
    ]);
    const { ipfsGateways, arweaveGateways } = readConfig({});
    for (const gateways of [ipfsGateways, arweaveGateways]) expect(gateways.length).toBeGreaterThan(1);
  });

  test("takes a query and a header of a gateway, and repeats neither in a problem", () => {
    const { ipfsGateways, arweaveGateways } = readConfig({
      IPFS_GATEWAYS: "https://a.example/ipfs/?token=x%2Cy , https://b.example/ipfs X-Key: abc def",
      ARWEAVE_GATEWAYS: "https://c.example/?k=1&l=2 Authorization:Bearer abc",
    });
    expect(ipfsGateways.map(parseGateway)).toEqual([
      { base: "https://a.example", query: [["token", "x,y"]], headers: {} },
      { base: "https://b.example", query: [], headers: { "x-key": "abc def" } },
    ]);
    expect(arweaveGateways.map(parseGateway)).toEqual([
      {
        base: "https://c.example",
        query: [
          ["k", "1"],
          ["l", "2"],
        ],
        headers: { authorization: "Bearer abc" },
      },
    ]);
    for (const wrong of [
      ...["https://user:secret@a.example", "https://a.example#secret", "ftp://a.example/secret", "secret"],
      ...["https://a.example secret", "https://a.example Host: secret", "https://a.example X-Key:"],
      ...["https://a.example X-Key: secret\r\nX-Other: 1", "https://a.example,", "https://a.example Ä: secret"],
    ]) {
      let message = "";
      try {
        readConfig({ IPFS_GATEWAYS: wrong });
      } catch (error) {
        message = String(error);
      }
      expect([wrong, /IPFS_GATEWAYS: must be/.test(message), message.includes("secret")]).toEqual([wrong, true, false]);
    }
  });

  test("tells variables that are near ours, and no others", () => {
    const { warnings } = readConfig({
      ...{ API_KEY: "x", LOGLEVEL: "debug", METRICS_KEYS: "x", PG_POOLS: "3" },
      ...{ HOME: "/root", HOSTNAME: "box", LANGUAGE: "en", LOGNAME: "me", npm_config_cache: "x", TERM_PROGRAM: "x" },
    });
    expect(warnings).toEqual([
      "API_KEY is no variable of this service: did you mean API_KEYS?",
      "LOGLEVEL is no variable of this service: did you mean LOG_LEVEL?",
      "METRICS_KEYS is no variable of this service: did you mean METRICS_KEY?",
      "PG_POOLS is no variable of this service: did you mean PG_POOL?",
    ]);
  });

  test("keeps API keys only as hashes", () => {
    const hash = new Bun.CryptoHasher("sha256").update("other-key-1").digest("hex");
    const config = readConfig({
      API_KEYS: `secret-key-1, sha256:${hash.toUpperCase()}`,
      OPERATOR_KEYS: "secret-key-2",
    });
    const hashOf = (key: string) => new Bun.CryptoHasher("sha256").update(key).digest("hex");
    expect(config.apiKeys).toEqual([
      { name: "API_KEYS#1", scope: "read", hash: hashOf("secret-key-1") },
      { name: "API_KEYS#2", scope: "read", hash },
      { name: "OPERATOR_KEYS#1", scope: "operate", hash: hashOf("secret-key-2") },
    ]);
    expect(JSON.stringify(config)).not.toContain("secret-key");
  });

  const bad: [string, string][] = [
    ["PORT", "65536"],
    ["PORT", "-1"],
    ["PORT", "3e3"],
    ["HOST", "http://here"],
    ["PUBLIC_URL", "ftp://x"],
    ["PUBLIC_URL", "nonsense"],
    ["API_KEYS", "short"],
    ["API_KEYS", "good-key-123,bad key"],
    ["EVENT_LOG_URL", "mysql://x"],
    ["EVENT_LOG_URL", "sqlite://:memory:"],
    ["RPC_URL_ETH", "file:///etc/passwd"],
    ["RPC_URL_MARS", "http://x.example"],
    ["FINALITY_DEPTH_ETH", "1.5"],
    ["FOLLOW_EVERY_ETH", "121"],
    ["CURSOR_SECRET", "short"],
    ["SNAPSHOT_MB", "0"],
    ["METADATA_MB", "1.5"],
    ["CACHE_MB", "0"],
    ["MAX_PAGE_SIZE", "０"],
    ["RATE_LIMIT_PER_MINUTE", "many"],
    ["WIRE_TYPES", "both"],
    ["LOG_LEVEL", "loud"],
    ["METRICS_KEY", "x"],
    ["IPFS_GATEWAYS", "ipfs.io"],
    ["IPFS_GATEWAYS", "https://ipfs.io,ftp://x"],
    ["IPFS_GATEWAYS", "https://user:word@ipfs.io"],
    ["ARWEAVE_GATEWAYS", "arweave.net"],
    ["ARWEAVE_GATEWAYS", "https://arweave.net#x=y"],
    ["METADATA_ALLOW_PRIVATE", "yes"],
    ["RPC_URLS_ONLY", "true"],
  ];
  for (const [key, value] of bad) {
    test(`refuses ${key}=${value} by name, and does not print the value of a secret`, () => {
      const problems = problemsOf({ [key]: value });
      expect(problems).toHaveLength(1);
      expect(problems[0]).toStartWith(key);
      if (key === "API_KEYS" || key === "CURSOR_SECRET") expect(problems[0]).not.toContain(value);
    });
  }

  test("stops the start and lists every error of a bad environment", async () => {
    const { exited, stderr } = spawnService({ PORT: "x", CACHE_MB: "y", RPC_URL_ETH: "z", LOG_LEVEL: "w" });
    expect(await exited).toBe(78);
    for (const key of ["PORT", "CACHE_MB", "RPC_URL_ETH", "LOG_LEVEL"]) expect(stderr()).toContain(`${key}: `);
  });

  test("stops the start with one line that names the variable", async () => {
    const taken = Bun.serve({ port: 0, fetch: () => new Response() });
    const logUrl = temporaryLogUrl();
    const env = { RPC_URL_ETH: "http://127.0.0.1:9", RPC_URLS_ONLY: "true", EVENT_LOG_URL: logUrl };
    const cases = [
      [{ PORT: String(taken.port) }, `PORT: ${taken.port} on 127.0.0.1 is in use`],
      [{ HOST: "1.2.3.4" }, "HOST"],
      [{ EVENT_LOG_URL: "sqlite:///proc/none/events.db" }, "EVENT_LOG_URL: /proc/none/events.db: "],
      [{ EVENT_LOG_URL: "postgres://me:secret-word@127.0.0.1:9/db" }, "EVENT_LOG_URL: 127.0.0.1:9: "],
    ] as const;
    for (const [wrong, text] of cases) {
      const service = spawnService({ ...env, ...wrong });
      expect(await service.exited).toBe(1);
      const lines = service.stderr().trim().split("\n");
      expect([lines.length, lines[0]]).toEqual([1, expect.stringContaining(text)]);
      expect(service.stderr()).not.toContain("secret-word");
    }
    await taken.stop(true);
  });

  test("hands out an address that clients can connect to", async () => {
    const env = { RPC_URL_ETH: "http://127.0.0.1:9", RPC_URLS_ONLY: "true", EVENT_LOG_URL: temporaryLogUrl() };
    const service = await startServiceProcess({ ...env, HOST: "0.0.0.0" });
    expect(service.base).toMatch(/^http:\/\/localhost:\d+$/);
    expect((await service.get("/health/live")).status).toBe(200);
    service.kill("SIGTERM");
    await service.exited;
  });
});

test("a key has three hundred new collections an hour and a thousand subscriptions, unless they are set", () => {
  const limits = ({ collectionsPerHour, subscriptionsPerKey }: Config) => [collectionsPerHour, subscriptionsPerKey];
  expect(limits(readConfig({}))).toEqual([300, 1_000]);
  expect(limits(readConfig({ COLLECTIONS_PER_HOUR: "7", SUBSCRIPTIONS_PER_KEY: "8" }))).toEqual([7, 8]);
});
