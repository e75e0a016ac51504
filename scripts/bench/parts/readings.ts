/**
 * Readings of a large collection by all routes that go through it, in a process of its own with the service in it. For
 * each it measures how long the thread was busy, and the longest time for which the event loop stood still. In: the
 * number of NFTs, and the names of readings to measure, separated by commas. Out: the measurements as JSON.
 */
import { startTestService } from "../../../test/support/service.ts";
import { personAddress } from "../fill.ts";
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { KEY_HEADERS, NO_NODE } from "../service.ts";

export interface Reading {
  readonly name: string;
  /** Ms of the first reading and of the next one: wall clock, busy thread, longest turn of the event loop. */
  readonly first: Measured;
  readonly next: Measured;
}

export interface Measured {
  readonly ms: number;
  readonly busyMs: number;
  readonly blockMs: number;
}

/** Turns that are shorter count as idle: the meter's own, and those of the runtime. */
const IDLE_TURN_MS = 0.05;
const KEYS = 10;

/** Measures the turns of this process's event loop. */
class LoopMeter {
  #last = performance.now();
  #busy = 0;
  #longest = 0;

  constructor() {
    const turn = () => {
      const now = performance.now();
      const took = now - this.#last;
      this.#last = now;
      if (took > IDLE_TURN_MS) this.#busy += took;
      this.#longest = Math.max(this.#longest, took);
      setImmediate(turn);
    };
    setImmediate(turn);
  }

  async measure(work: () => Promise<unknown>): Promise<Measured> {
    await Bun.sleep(20);
    [this.#busy, this.#longest] = [0, 0];
    const started = performance.now();
    await work();
    const ms = performance.now() - started;
    return { ms, busyMs: this.#busy, blockMs: this.#longest };
  }
}

const [tokens, only] = [Number(process.argv[2]), process.argv[3]?.split(",")];
const filled = await filledLog({ tokens, moves: 1, people: 1 / 3, whales: 5 });
await filled.close();
const keys = Array.from({ length: KEYS }, (_, n) => `readings-key-${n}-0123456789`);
const env = { API_KEYS: [KEY_HEADERS["x-api-key"], ...keys].join(","), CACHE_MB: "2048" };
const service = await startTestService({ rpcUrl: NO_NODE, logUrl: filled.url, env });

const explored = `/api/collections/eth/${FILLED_ADDRESS}`;
const [whale, person] = [personAddress(1), personAddress(Math.floor(tokens / 5))];
const past = Math.floor((tokens * 1.2) / 50);
const early = Math.floor((tokens * 0.3) / 50);

const ask = async (path: string, key: string = KEY_HEADERS["x-api-key"], init: RequestInit = {}): Promise<void> => {
  const response = await service.fetch(path, { ...init, headers: { "x-api-key": key } });
  if (response.status !== 200) throw new Error(`${path}: ${await response.text()}`);
  const reader = response.body?.getReader();
  while ((await reader?.read())?.done === false);
};
const listing = `/api/v2/nft/${FILLED_ADDRESS}`;
const get = (path: string) => () => ask(path);

const READINGS: Readonly<Record<string, () => Promise<unknown>>> = {
  page: get(`${listing}?limit=100`),
  "page at a past block": get(`${listing}?limit=100&as_of_block=${early}`),
  "last of a thousand ranges at a past block": get(`${listing}?totalRanges=1000&range=999&as_of_block=${past}`),
  "last of a thousand ranges of holders at a past block": get(
    `${listing}?totalRanges=1000&range=999&holders=true&as_of_block=${past}`,
  ),
  "tokens of a whale": get(`${explored}/tokens?owner=${whale}`),
  "tokens of a person": get(`${explored}/tokens?owner=${person}`),
  "tokens of a stranger": get(`${explored}/tokens?owner=0x${"12".repeat(20)}`),
  "tokens of a person at a past block": get(`${explored}/tokens?owner=${person}&as_of_block=${past}`),
  "tokens of a person far in the past": get(`${explored}/tokens?owner=${person}&as_of_block=${early}`),
  holders: get(`${explored}/holders`),
  "holders at a past block": get(`${explored}/holders?as_of_block=${past}`),
  "holders far in the past": get(`${explored}/holders?as_of_block=${early}`),
  transfers: get(`${explored}/transfers`),
  "transfers from a whale": get(`${explored}/transfers?from=${whale}`),
  "transfers from one whale to another": get(`${explored}/transfers?from=${whale}&to=${personAddress(2)}`),
  "transfers to a person far in the past": get(`${explored}/transfers?to=${person}&as_of_block=${early}`),
  "transfers of a token": get(`${explored}/tokens/7/transfers`),
  "a token": get(`${explored}/tokens/7?as_of_block=${early}`),
  "csv export": get(`${explored}/export?format=csv`),
  "csv export of holders": get(`${explored}/export?format=csv&holders=true`),
  "parquet export": get(`${explored}/export?format=parquet`),
  "ten parquet exports": () => Promise.all(keys.map((key) => ask(`${explored}/export?format=parquet`, key))),
};

// Loads the collection.
await ask(`${listing}?limit=1`);
const meter = new LoopMeter();
const readings: Reading[] = [];
for (const [name, reading] of Object.entries(READINGS)) {
  if (only !== undefined && !only.includes(name)) continue;
  readings.push({ name, first: await meter.measure(reading), next: await meter.measure(reading) });
}
process.stdout.write(JSON.stringify(readings satisfies Reading[]));
filled.remove();
process.exit(0);
