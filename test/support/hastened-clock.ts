/** A clock whose seconds are shorter than real ones, so that timeouts run out against real sockets in little time. */
import { type Clock, systemClock } from "../../src/core/clock.ts";

/** @param factor seconds of the clock in a real one */
export function hastenedClock(factor: number): Clock {
  const begun = { now: systemClock.now(), monotonic: systemClock.monotonic() };
  const monotonic = () => begun.monotonic + (systemClock.monotonic() - begun.monotonic) * factor;
  return {
    monotonic,
    now: () => begun.now + monotonic() - begun.monotonic,
    random: systemClock.random,
    sleep: (ms, signal) => systemClock.sleep(ms / factor, signal),
    after: (ms, callback) => systemClock.after(ms / factor, callback),
  };
}
