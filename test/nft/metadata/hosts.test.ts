/** The limits per remote host: which host's state is dropped when there are too many. */

import { expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import { MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { Hosts } from "../../../src/nft/metadata/resolve/host-limits.ts";

const MAX_HOSTS = 10_000;
const FAILURES_TO_OPEN = 4;

/** Lets `times` requests to a host fail. Returns how many of them were sent. */
async function fail(hosts: Hosts, name: string, times: number): Promise<number> {
  let sent = 0;
  for (let i = 0; i < times; i++) {
    const of = { url: `http://${name}/${i}`, collection: "a", isPatient: false };
    const request = hosts.run(of, async () => {
      sent++;
      throw new MetadataFailure("connection_failed");
    });
    await request.catch(() => undefined);
  }
  return sent;
}

test("drops hosts with a closed circuit breaker before those with an open one", async () => {
  // The time stands still, so an open circuit breaker stays open.
  const hosts = new Hosts({ ...systemClock, monotonic: () => 1 }, 2);
  expect(await fail(hosts, "dead.example", 2 * FAILURES_TO_OPEN)).toBe(FAILURES_TO_OPEN);
  for (let i = 0; i < MAX_HOSTS + 10; i++) await fail(hosts, `${i}.example`, 1);
  expect(await fail(hosts, "dead.example", 1)).toBe(0);
});

test("drops the host with the oldest open circuit breaker if all are open", async () => {
  const hosts = new Hosts({ ...systemClock, monotonic: () => 1 }, 2);
  for (let i = 0; i <= MAX_HOSTS; i++) await fail(hosts, `${i}.example`, FAILURES_TO_OPEN);
  expect([await fail(hosts, "1.example", 1), await fail(hosts, "0.example", 1)]).toEqual([0, 1]);
});
