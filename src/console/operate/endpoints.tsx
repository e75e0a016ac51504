/** The endpoints of each chain: their state and why they rest, how quick they are, and what they cost. */

import type { ChainStatus } from "../../client/index.ts";
import { ENDPOINT_WORDS } from "../../status-words.ts";
import { Twin } from "../parts/curl.tsx";
import { bytes, clock, plain, short } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { SERVICE_PROGRAM } from "../state/base.ts";
import { useStatus } from "../state/status.ts";

const PAUSE_MS = 2_000;

export function EndpointsPanel() {
  const status = useStatus(PAUSE_MS);
  return (
    <Panel title="Endpoints">
      <QueryView of={status} loading="Asking for the state of the endpoints…">
        {({ chains }) => <EndpointTable chains={chains} />}
      </QueryView>
      <p class="quiet">
        Endpoints are set by <code>RPC_URL_…</code> in the environment of the service. A start checks them, and so does{" "}
        <code>{SERVICE_PROGRAM} doctor</code>.
      </p>
      <Twin commands={["status"]} />
    </Panel>
  );
}

interface EndpointRow {
  readonly chain: string;
  readonly endpoint: ChainStatus["endpoints"][number];
}

const COLUMNS: readonly TableColumn<EndpointRow>[] = [
  {
    title: "Endpoint",
    isName: true,
    cell: ({ chain, endpoint }) => (
      <>
        {endpoint.label} <small>{chain}</small>
      </>
    ),
  },
  {
    title: "State",
    cell: ({ endpoint: { state, reason, restsUntil } }) => (
      <>
        {ENDPOINT_WORDS[state].word}
        {reason === null ? "" : `: ${plain(reason, 200)}`}
        {restsUntil === null ? "" : `, until ${clock(restsUntil)}`}
      </>
    ),
  },
  {
    title: "Latency: median, 99th percentile",
    cell: ({ endpoint: { latencyMs } }) => (latencyMs === null ? "–" : `${latencyMs.p50} ms, ${latencyMs.p99} ms`),
  },
  { title: "Calls in the last hour", cell: ({ endpoint }) => <Calls counts={endpoint.calls.hour} /> },
  { title: "Calls in 24 hours", cell: ({ endpoint }) => <Calls counts={endpoint.calls.day} /> },
  { title: "Compute units in 24 hours", cell: ({ endpoint }) => short(endpoint.units.day) },
  { title: "Data in 24 hours", cell: ({ endpoint }) => bytes(endpoint.bytes.day) },
];

const EndpointTable = ({ chains }: { readonly chains: readonly ChainStatus[] }) => (
  <Table
    label="Endpoints"
    columns={COLUMNS}
    rows={chains.flatMap(({ name, endpoints }) => endpoints.map((endpoint) => ({ chain: name, endpoint })))}
    keyOf={({ chain, endpoint }) => `${chain}/${endpoint.label}`}
    none="No chain has an endpoint."
  />
);

/** The calls by method, most frequent first. */
function Calls({ counts }: { readonly counts: Readonly<Record<string, number>> }) {
  const methods = Object.entries(counts).sort(([, a], [, b]) => b - a);
  if (methods.length === 0) return <>none</>;
  return (
    <ul class="calls">
      {methods.map(([method, count]) => (
        <li key={method}>
          {short(count)} <code>{plain(method, 40)}</code>
        </li>
      ))}
    </ul>
  );
}
