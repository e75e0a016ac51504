/** A job that fails is retried, even if the release of its lease is slow. */

import { afterAll, expect, test } from "bun:test";
import { Leases } from "../../../src/chain/lease.ts";
import { Budget } from "../../../src/core/budget.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { Lifecycle } from "../../../src/core/lifecycle.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { IndexingJobs, type JobsOptions } from "../../../src/nft/indexing/jobs.ts";
import { KNOWN } from "../../support/known-chains.ts";
import { eventually, temporaryLogUrl } from "../../support/service.ts";

const stream = nftStream(1, `0x${"1".repeat(40)}` as Address);
const real = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await real.close();
});

test("does not lose a retry that falls due while the lease is being released", async () => {
  const timers = new Set<() => void>();
  const clock: Clock = {
    ...systemClock,
    after: (_ms, call) => {
      timers.add(call);
      return () => timers.delete(call);
    },
  };
  const fire = () => {
    for (const call of [...timers]) {
      timers.delete(call);
      call();
    }
  };
  const given = Promise.withResolvers<void>();
  let isGivingBack = false;
  const log = new Proxy(real, {
    get(target, name: keyof EventLog) {
      if (name === "releaseLease") {
        return async (lease: string, holder: string) => {
          isGivingBack = true;
          await given.promise;
          await target.releaseLease(lease, holder);
        };
      }
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  let attempts = 0;
  const reader = new Proxy(
    {},
    {
      get: (_target, name) => {
        if (name === "silentMs") return () => 0;
        if (name === "failureWithin") return () => undefined;
        return async () => {
          if (name === "callsAtHead") attempts++;
          throw new Error("no node");
        };
      },
    },
  );
  const ignored = new Proxy({}, { get: () => () => undefined });
  const leases = new Leases({ log, clock, holder: "test" });
  const jobs = new IndexingJobs({
    ...{ log, reader, clock, lifecycle, chain: KNOWN.byId(1)!, logger: silentLogger, leases, verify: "sample" },
    ...{ decoder: ignored, observer: ignored, follower: ignored, collections: ignored, flags: ignored },
    archives: ignored,
    accountOf: () => new Budget(),
  } as unknown as JobsOptions);
  await real.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  jobs.offer(await real.head(stream));
  await eventually("the release of the lease is pending", async () => (isGivingBack ? true : undefined));
  expect(attempts).toBe(1);
  fire();
  given.resolve();
  await eventually("the job is attempted again", async () => {
    fire();
    return attempts > 1 ? true : undefined;
  });
  expect(jobs.open).toBe(1);
});
