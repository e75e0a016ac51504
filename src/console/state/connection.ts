/** Whether the service can be reached: probes of `/health/live`, since the browser's own word is about the network only. */
import { onlineManager } from "@tanstack/query-core";
import { useEffect, useState } from "preact/hooks";
import { BASE } from "./base.ts";
import { readyValue, useQuery } from "./query.ts";

/** Pauses between two probes, and the time that the service has to answer one. */
const [PROBE_MS, LOST_PROBE_MS, PROBE_TIMEOUT_MS] = [3_000, 1_000, 5_000];
/** Statuses of a proxy in front of a service that doesn't answer. */
const UNREACHABLE = [502, 503, 504];

onlineManager.setEventListener(() => () => undefined);

/** Probes whether the service answers, while the page can be seen. Queries are asked again when it is back. */
export function useProbes(): void {
  const live = useQuery(["live"], isReachable, { everyMs: (isUp) => (isUp === false ? LOST_PROBE_MS : PROBE_MS) });
  const isUp = readyValue(live) ?? true;
  useEffect(() => onlineManager.setOnline(isUp), [isUp]);
}

async function isReachable(signal: AbortSignal): Promise<boolean> {
  try {
    const timely = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
    const { status } = await fetch(`${BASE}health/live`, { method: "HEAD", cache: "no-store", signal: timely });
    return !UNREACHABLE.includes(status);
  } catch {
    return false;
  }
}

/** What the newest probe said. */
export function useIsOnline(): boolean {
  const [isOnline, setOnline] = useState(onlineManager.isOnline());
  useEffect(() => onlineManager.subscribe(setOnline), []);
  return isOnline;
}
