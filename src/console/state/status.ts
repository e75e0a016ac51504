/** The state of the service, of which several parts of a screen show something. */
import type { ServiceStatus } from "../../client/index.ts";
import { type QueryState, useQuery } from "./query.ts";
import { useSession } from "./session.ts";

/** Only a key of scope operate may ask for it. For other keys it stays unknown. @param everyMs pause between two answers */
export function useStatus(everyMs?: number): QueryState<ServiceStatus> {
  const { client, scope } = useSession();
  const polling = everyMs === undefined ? {} : { everyMs };
  return useQuery(["status"], (signal) => client.status({ signal }), { isOn: scope === "operate", ...polling });
}
