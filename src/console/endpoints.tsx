/** The endpoints of each chain: their state and why they rest, how quick they are, and what they cost. */
import type { ServiceStatus } from "../client/index.ts";
import { bytes, clock, plain, short } from "./format.ts";
import { usePolled, useSession } from "./hooks.ts";
import { Curl, Failure, Panel, Scroll } from "./parts.tsx";

const PAUSE_MS = 2_000;

export function EndpointsPanel() {
  const { client } = useSession();
  const { value, error } = usePolled((signal) => client.status({ signal }), PAUSE_MS, []);
  return (
    <Panel title="Endpoints">
      <Failure error={error} />
      {value === undefined ? null : <EndpointTable status={value} />}
      <p class="quiet">
        Endpoints are set by <code>RPC_URL_…</code> in the environment of the service. A start checks them, and so does{" "}
        <code>bun run cli doctor</code>.
      </p>
      <Curl requests={[{ path: "/api/status" }]} command="status" />
    </Panel>
  );
}

function EndpointTable({ status }: { readonly status: ServiceStatus }) {
  const titles = ["Endpoint", "State", "Median, 99 of 100", "Calls in an hour", "In 24 hours", "Units", "Bytes"];
  return (
    <Scroll label="Endpoints">
      <table>
        <thead>
          <tr>
            {titles.map((title) => (
              <th scope="col" key={title}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {status.chains.flatMap(({ name, endpoints }) =>
            endpoints.map(({ label, state, reason, restsUntil, latencyMs, calls, units, bytes: read }) => (
              <tr key={`${name}/${label}`}>
                <th scope="row">
                  {label} <small>{name}</small>
                </th>
                <td>
                  {state.replace("_", " ")}
                  {reason === null ? "" : `: ${plain(reason, 200)}`}
                  {restsUntil === null ? "" : `, until ${clock(restsUntil)}`}
                </td>
                <td>{latencyMs === null ? "–" : `${latencyMs.p50} ms, ${latencyMs.p99} ms`}</td>
                <td>
                  <Calls counts={calls.hour} />
                </td>
                <td>
                  <Calls counts={calls.day} />
                </td>
                <td>{short(units.day)}</td>
                <td>{bytes(read.day)}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The calls by method, most frequent first. */
function Calls({ counts }: { readonly counts: Readonly<Record<string, number>> }) {
  const methods = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return (
    <ul class="plain-list">
      {methods.map(([method, count]) => (
        <li key={method}>
          {short(count)} <code>{plain(method, 40)}</code>
        </li>
      ))}
    </ul>
  );
}
