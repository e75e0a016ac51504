/**
 * One replica of the service: a real process with its own path to PostgreSQL and its own node, which can be killed,
 * stopped and restarted. Requests report whether the process was disturbed meanwhile, because only then may an answer be
 * missing or late.
 */
import { type ServiceProcess, startServiceProcess } from "../../test/support/process.ts";
import { TEST_KEY } from "../../test/support/service.ts";
import { startTcpProxy, type TcpProxy } from "../../test/support/tcp-proxy.ts";
import type { ChaosNode } from "./node.ts";

export interface Asked {
  /** Undefined: no answer came. `failure` says why. */
  readonly response: Response | undefined;
  readonly text: string;
  readonly failure: string;
  readonly ms: number;
  /** The process was down, stopped or restarted during the request. */
  readonly isDisturbed: boolean;
}

interface ReplicaOptions {
  /** The primary's. */
  readonly port: number;
  readonly database: string;
  readonly node: ChaosNode;
  readonly logLevel: string;
}

/** A running process answers within this time, even if PostgreSQL or its node does not. */
export const ANSWER_MS = 10_000;

export class Replica {
  readonly name: string;
  readonly path: TcpProxy;
  readonly node: ChaosNode;
  /** Called when the process ends without being killed. */
  onCrash: (problem: string) => void = () => undefined;
  readonly #database: string;
  readonly #logLevel: string;
  #process: ServiceProcess | undefined;
  #isStopped = false;
  #disturbances = 0;
  /** Standard error of the processes that have ended. */
  #formerLog = "";

  private constructor(name: string, path: TcpProxy, { database, node, logLevel }: ReplicaOptions) {
    this.name = name;
    this.path = path;
    this.node = node;
    this.#database = database;
    this.#logLevel = logLevel;
  }

  /** Prepares the replica and does not start its process. */
  static async create(name: string, options: ReplicaOptions): Promise<Replica> {
    return new Replica(name, await startTcpProxy(options.port), options);
  }

  get isRunning(): boolean {
    return this.#process !== undefined && !this.#isStopped;
  }

  /** Everything that the processes of this replica wrote to standard error. */
  get log(): string {
    return this.#formerLog + (this.#process?.stderr() ?? "");
  }

  get socketUrl(): string | undefined {
    return this.#process?.base.replace("http", "ws").concat("/api/v2/ws");
  }

  /** Starts the process and resolves when it serves. */
  async start(): Promise<void> {
    const process = await startServiceProcess({
      EVENT_LOG_URL: `postgres://postgres:password@127.0.0.1:${this.path.port}/${this.#database}`,
      RPC_URL_ETH: this.node.url,
      RPC_URLS_ONLY: "true",
      RATE_LIMIT_PER_MINUTE: "10000000",
      CURSOR_SECRET: "of all replicas alike",
      SNAPSHOT_DIR: "off",
      LOG_LEVEL: this.#logLevel,
    });
    this.#process = process;
    this.#isStopped = false;
    this.#disturbances++;
    process.exited.then((code) => {
      if (this.#process !== process) return;
      this.#process = undefined;
      this.#formerLog += process.stderr();
      this.onCrash(`${this.name} ended by itself with ${code}: ${process.stderr().slice(-500)}`);
    });
  }

  /** Ends the process with SIGKILL. */
  async kill(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    this.#disturbances++;
    if (process === undefined) return;
    process.kill("SIGKILL");
    await process.exited;
    this.#formerLog += process.stderr();
  }

  /** Stops the process with SIGSTOP, between any two of its instructions. */
  pause(): void {
    this.#isStopped = true;
    this.#disturbances++;
    this.#process?.kill("SIGSTOP");
  }

  resume(): void {
    this.#process?.kill("SIGCONT");
    this.#isStopped = false;
    this.#disturbances++;
  }

  async ask(path: string): Promise<Asked> {
    const before = this.#disturbances;
    const wasRunning = this.isRunning;
    const started = performance.now();
    let response: Response | undefined;
    let [text, failure] = ["", this.#process === undefined ? "the process is down" : ""];
    try {
      if (this.#process !== undefined) {
        const signal = AbortSignal.timeout(ANSWER_MS);
        // Without keep-alive no request meets a connection that died with the former process.
        const headers = { "x-api-key": TEST_KEY, connection: "close" };
        response = await fetch(`${this.#process.base}${path}`, { headers, signal });
        text = await response.text();
      }
    } catch (error) {
      response = undefined;
      failure = String(error);
    }
    const isDisturbed = !wasRunning || before !== this.#disturbances;
    return { response, text, failure, ms: performance.now() - started, isDisturbed };
  }

  /** Ends the process in order. Resolves with its exit code. */
  async end(): Promise<number | null> {
    const process = this.#process;
    this.#process = undefined;
    if (process === undefined) return 0;
    process.kill("SIGTERM");
    const code = await process.exited;
    this.#formerLog += process.stderr();
    return code;
  }

  async close(): Promise<void> {
    await this.kill();
    await this.path.stop();
    await this.node.stop();
  }
}
