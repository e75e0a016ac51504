/**
 * The two queues of slow requests: those that read a whole collection in memory, and those that wait for a node. Apart,
 * so that a slow node delays no reading of memory. Keys share each of them fairly.
 */
import { FairSlots } from "../core/fair-slots.ts";

/** Work of one key that waits. At a tenth of a second each, the last one starts after a few seconds. */
const MAX_WAITING = 32;

/** Each reading takes slices of the thread that serves requests, so more of them at once would only take turns. */
export const memoryReadings = () =>
  new FairSlots({
    ...{ places: 4, perKey: 2, forOperators: 1 },
    maxWaiting: MAX_WAITING,
    retryAfter: 2,
    work: "readings of whole collections",
  });

/** Each reading is up to 64 requests for logs. A public node bears about a hundred of them at once. */
export const nodeReadings = () =>
  new FairSlots({
    ...{ places: 5, perKey: 2, forOperators: 1 },
    maxWaiting: MAX_WAITING,
    retryAfter: 2,
    work: "readings of the node",
  });
