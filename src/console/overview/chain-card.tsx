/** A chain on the overview: its blocks, what is wrong with it, and its endpoints. */
import { troubleOfReport } from "../../chains/trouble.ts";
import type { ChainStatus, ServiceStatus } from "../../client/index.ts";
import { CHAIN_WORDS, ENDPOINT_WORDS } from "../../status-words.ts";
import { ago, bytes, clock, plain, short, whole } from "../parts/format.ts";
import { TroubleWords } from "../parts/notice.tsx";

export function ChainCard({
  chain,
  status: { leases, instance },
}: {
  readonly chain: ChainStatus;
  readonly status: ServiceStatus;
}) {
  const { name, chainId, head, finalized, settled, inDoubt, state, since, endpoints } = chain;
  const leader = leases.find(({ what }) => what === `follow/${chainId}`);
  const trouble = troubleOfReport(chain);
  const isElsewhere = leader !== undefined && leader.holder !== instance;
  return (
    <article>
      <h3>
        {name}{" "}
        <span class={`state ${state}`} title={CHAIN_WORDS[state].meaning}>
          {CHAIN_WORDS[state].word}
        </span>
      </h3>
      <p>
        {head === null
          ? "no block seen yet"
          : `newest block ${whole(head.number)}${head.time === null ? "" : `, ${ago(head.time)}`}`}
        {finalized === null ? "" : ` · final up to block ${whole(finalized)}`}
        {settled === null ? "" : ` · logs confirmed by headers up to block ${whole(settled)}`}
        <br />
        <small>
          in this state since {clock(since)}
          {isElsewhere ? " · another process of the service reads its blocks" : ""}
        </small>
      </p>
      {trouble === undefined ? null : (
        <div class="failure">
          <TroubleWords chain={name} trouble={trouble} />
        </div>
      )}
      {inDoubt === null ? null : (
        <p class="failure">
          In doubt from block {whole(inDoubt.block)} on: {plain(inDoubt.reason, 400)}
        </p>
      )}
      <ul>
        {endpoints.map((endpoint) => (
          <Endpoint key={endpoint.label} endpoint={endpoint} />
        ))}
      </ul>
    </article>
  );
}

function Endpoint({ endpoint }: { readonly endpoint: ChainStatus["endpoints"][number] }) {
  const { label, state, reason, latencyMs, calls, units, bytes: read } = endpoint;
  const count = Object.values(calls.day).reduce((sum, one) => sum + one, 0);
  return (
    <li>
      <strong>{label}</strong> {ENDPOINT_WORDS[state].word}
      {reason === null ? "" : `: ${plain(reason, 200)}`}
      {latencyMs === null ? "" : ` · ${latencyMs.p50} ms`}
      <br />
      <small>
        last 24 hours: {short(count)} calls, {short(units.day)} compute units, {bytes(read.day)}
      </small>
    </li>
  );
}
