/**
 * The state of the service for operators: the log, the leases, each chain with its endpoints, the collections by status.
 * The command line, the console and `GET /api/status` show the same object. It names endpoints by label, never by URL.
 */
import type { Chain } from "../chains/chains.ts";
import { HEADERS_CHANGED, troubleOfEndpoints } from "../chains/trouble.ts";
import { isoTime } from "../core/block-time.ts";
import type { Clock } from "../core/clock.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { EventLog, HeldLease, LogStatus } from "../log/event-log.ts";
import type { ArchiveStatus } from "../rpc/archive/port.ts";
import type { EndpointStatus } from "../rpc/endpoint/endpoint-pool.ts";
import type { Bills, HourAndDayBill } from "./bills.ts";
import type { Catalogue } from "./catalogue.ts";
import type { ApiKeys } from "./keys.ts";
import type { ReportedState, StatusReport } from "./models.ts";

/** One chain as the report reads it. */
export interface ReportedChain {
  readonly chain: Chain;
  readonly head: () => HeaderRef | undefined;
  readonly finalized: () => BlockRef | undefined;
  readonly isHalted: () => boolean;
  /** True for a chain of today without endpoints of the operator's, until a client asks for it. */
  readonly isAsleep: () => boolean;
  /** True if nothing on the chain is followed, as far as this process knows. */
  readonly isIdle: () => boolean;
  readonly endpoints: () => readonly EndpointStatus[];
  readonly archives: () => readonly ArchiveStatus[];
  /** The first block of which the endpoints have logs, if they refused older ones. */
  readonly historyFrom: () => number | undefined;
  /** What the newest headers show of the chain's. */
  readonly headerForm: () => { readonly changedAt: number | undefined; readonly settled: number | undefined };
}

interface StatusOptions {
  readonly instance: string;
  readonly version: string;
  /** ms since the epoch. */
  readonly startedAt: number;
  readonly clock: Clock;
  readonly log: Pick<EventLog, "engine" | "status" | "leases">;
  readonly behindMs: () => number;
  readonly memory: () => { readonly collections: number; readonly metadata: number };
  readonly chains: readonly ReportedChain[];
  readonly catalogue: Catalogue;
  readonly bills: Pick<Bills, "endpoint" | "key">;
  readonly keys: Pick<ApiKeys, "list">;
}

/** Interval at which states of chains are noticed. */
const NOTICE_MS = 1_000;
/** Leases for requests of work are marks of waiting processes, not work. */
const isWork = ({ name }: { readonly name: string }): boolean => /^(?:follow|metadata|index)\//.test(name);

export class ServiceStatus {
  readonly #options: StatusOptions;
  readonly #noticed = new Map<number, { readonly state: ReportedState; readonly since: number }>();

  constructor(options: StatusOptions) {
    this.#options = options;
    this.#notice();
  }

  /** Notices changes of the chains' states until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#notice();
      await this.#options.clock.sleep(NOTICE_MS, signal).catch(() => undefined);
    }
  }

  #notice(): void {
    const { chains, clock } = this.#options;
    for (const chain of chains) {
      const state = stateOf(chain);
      const { chainId } = chain.chain;
      if (this.#noticed.get(chainId)?.state !== state) this.#noticed.set(chainId, { state, since: clock.now() });
    }
  }

  /** @throws AppError if the log does not answer */
  async report(): Promise<StatusReport> {
    const { instance, version, startedAt, log, behindMs, memory, chains, catalogue, bills, keys } = this.#options;
    this.#notice();
    const [disk, leases, collections] = await Promise.all([log.status(), log.leases(), catalogue.counts()]);
    const { rss, heapUsed } = process.memoryUsage();
    const { requested, indexing, joining, failing } = collections;
    return {
      instance,
      version,
      startedAt: new Date(startedAt).toISOString(),
      log: { ...logReport(log.engine, disk), behindSeconds: Math.round(behindMs() / 100) / 10 },
      memory: { rss, heap: heapUsed, ...memory() },
      leases: leaseReports(leases),
      chains: chains.filter(({ isAsleep }) => !isAsleep()).map((chain) => this.#chainReport(chain)),
      keys: keys.list().map(({ name }) => ({ name, ...costOf(bills.key(name)) })),
      collections,
      queue: requested + indexing + joining + failing,
      inDoubt: catalogue.inDoubt,
    };
  }

  #chainReport(reported: ReportedChain): StatusReport["chains"][number] {
    const { chain, endpoints } = reported;
    const head = reported.head();
    const { changedAt, settled } = reported.headerForm();
    const { state, since } = this.#noticed.get(chain.chainId) as { state: ReportedState; since: number };
    return {
      name: chain.name,
      chainId: chain.chainId,
      head: head === undefined ? null : { number: head.number, hash: head.hash, time: timeOf(head) },
      finalized: reported.finalized()?.number ?? null,
      settled: settled ?? null,
      inDoubt: changedAt === undefined ? null : { block: changedAt, reason: HEADERS_CHANGED },
      state,
      since: new Date(since).toISOString(),
      endpoints: endpoints().map((status) => this.#endpointReport(status)),
      archives: [...reported.archives()],
      historyFrom: reported.historyFrom() ?? null,
    };
  }

  #endpointReport({
    label,
    state,
    reason,
    restsMs,
    usage,
  }: EndpointStatus): StatusReport["chains"][number]["endpoints"][number] {
    const bill = this.#options.bills.endpoint(label);
    return {
      label,
      state,
      reason,
      restsUntil: restsMs === 0 ? null : new Date(this.#options.clock.now() + restsMs).toISOString(),
      latencyMs: usage?.latencyMs() ?? null,
      ...costOf(bill),
      bytes: { hour: bill.hour.bytes, day: bill.day.bytes },
    };
  }
}

const costOf = ({ hour, day }: HourAndDayBill) => ({
  calls: { hour: hour.calls, day: day.calls },
  units: { hour: hour.units, day: day.units },
});

/** The log's part of the report. */
function logReport(engine: string, { bytes, freeBytes, isWritable, lastAppendAt }: LogStatus) {
  const last = lastAppendAt === undefined ? null : new Date(lastAppendAt).toISOString();
  return { engine, bytes, freeBytes: freeBytes ?? null, writable: isWritable, lastAppendAt: last };
}

const leaseReports = (leases: readonly HeldLease[]): StatusReport["leases"] =>
  leases.filter(isWork).map(({ name: what, holder }) => ({ what, holder }));

const timeOf = ({ timestamp }: HeaderRef): string | null => isoTime(timestamp) ?? null;

/**
 * 1. The chain's followers have halted it.
 * 2. All endpoints of this process are of other chains.
 * 3. All endpoints of this process fail or rest.
 * 4. Nothing is followed.
 */
function stateOf({ isHalted, endpoints, isIdle }: ReportedChain): ReportedState {
  if (isHalted()) return "halted";
  const trouble = troubleOfEndpoints(endpoints().map(({ state }) => state));
  if (trouble === "wrong_chain" || trouble === "unreachable") return trouble;
  return isIdle() ? "idle" : "following";
}
