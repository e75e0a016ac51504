/**
 * The end of a process under load, as clients with kept connections see it: each connection ends with an answer that says so,
 * so that no request meets a connection that closes by itself.
 */
import { afterEach, expect, test } from "bun:test";
import { connect } from "node:net";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

let service: ServiceProcess | undefined;
afterEach(async () => {
  service?.kill("SIGKILL");
  await service?.exited;
});

const start = () =>
  startServiceProcess({
    EVENT_LOG_URL: temporaryLogUrl(),
    ...{ RPC_URL_ETH: "http://127.0.0.1:9/", RPC_URLS_ONLY: "true", RATE_LIMIT_PER_MINUTE: "10000000" },
  });

interface Answer {
  readonly status: number;
  readonly isLast: boolean;
  readonly text: string;
}

const REQUESTS = {
  page: ["GET", `/api/v2/nft/0x${"ab".repeat(20)}`, ""],
  // Refused for its body, without a node.
  prices: ["POST", "/api/v2/erc20/prices", '{"tokens":[]}'],
  ready: ["GET", "/health/ready", ""],
  live: ["GET", "/health/live", ""],
} as const;

/** A client with one connection, which it keeps as long as the answers let it. */
class KeptConnection {
  readonly #socket;
  #received = "";
  #told: (answer: Answer | undefined) => void = () => undefined;

  constructor(port: number) {
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.on("error", () => undefined);
    this.#socket.on("close", () => this.#told(undefined));
    this.#socket.on("data", (bytes) => {
      this.#received += bytes.toString("latin1");
      const end = this.#received.indexOf("\r\n\r\n");
      const head = this.#received.slice(0, Math.max(end, 0));
      const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.NaN);
      if (end < 0 || this.#received.length < end + 4 + length) return;
      const text = this.#received.slice(end + 4);
      this.#received = "";
      this.#told({ status: Number(head.slice(9, 12)), isLast: /^connection: close/im.test(head), text });
    });
  }

  /** Undefined if the connection closed without an answer, or was refused. */
  ask([method, path, body]: (typeof REQUESTS)[keyof typeof REQUESTS]): Promise<Answer | undefined> {
    const head = [`${method} ${path} HTTP/1.1`, "Host: h", `x-api-key: ${TEST_KEY}`, "Accept-Encoding: identity"];
    const more = [`Content-Length: ${body.length}`, "Content-Type: application/json", "", body];
    return new Promise((resolve) => {
      this.#told = resolve;
      if (this.#socket.destroyed) resolve(undefined);
      else this.#socket.write([...head, ...more].join("\r\n"));
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

test("a stopping process answers, says that it is not ready, and ends each connection with an answer", async () => {
  service = await start();
  const port = Number(new URL(service.base).port);
  let isStopping = false;
  const answered = { before: 0, after: 0 };
  const lost: string[] = [];
  const clients = Array.from({ length: 6 }, async (_, at) => {
    const request = at % 2 === 0 ? REQUESTS.page : REQUESTS.prices;
    for (let isRefused = false; !isRefused; ) {
      const connection = new KeptConnection(port);
      for (let asked = 0; ; asked++) {
        const answer = await connection.ask(request);
        if (answer === undefined) {
          // A first request is refused once the process listens no more.
          if (asked > 0 || !isStopping) lost.push(`${request[1]} after ${asked} answers`);
          isRefused = true;
          break;
        }
        answered[isStopping ? "after" : "before"]++;
        if (answer.isLast) break;
      }
      connection.close();
    }
  });
  const isServing = async () => (answered.before > 200 ? true : undefined);
  await eventually("the clients are served", isServing);
  isStopping = true;
  service.kill("SIGTERM");
  const unready = await eventually("the process says that it stops", async () => {
    const answer = await new KeptConnection(port).ask(REQUESTS.ready);
    return answer?.status === 503 ? answer : undefined;
  });
  expect(unready).toMatchObject({ isLast: true, text: expect.stringContaining("the service is stopping") });
  expect(await new KeptConnection(port).ask(REQUESTS.live)).toMatchObject({ status: 200, isLast: true });
  await Promise.all(clients);
  expect(lost).toEqual([]);
  expect(answered.after).toBeGreaterThan(200);
  expect(await service.exited).toBe(0);
}, 300_000);

test("a process without requests stops at once", async () => {
  service = await start();
  const begun = performance.now();
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
  expect(performance.now() - begun).toBeLessThan(1_900);
});
