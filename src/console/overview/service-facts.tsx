/** The process on the overview: its data, memory and queue. */
import type { ServiceStatus } from "../../client/index.ts";
import { ago, bytes, whole } from "../parts/format.ts";
import { Fact, Panel } from "../parts/parts.tsx";

export function ServiceFacts({ status }: { readonly status: ServiceStatus }) {
  const { log, memory, version, startedAt, queue, inDoubt } = status;
  return (
    <Panel title="Service">
      <dl>
        <Fact name="Stored data">
          {bytes(log.bytes)} in {log.engine}
          {log.writable ? "" : " · not writable"}
        </Fact>
        <Fact name="Free disk space">{log.freeBytes === null ? "not known" : bytes(log.freeBytes)}</Fact>
        <Fact name="Replication lag">{log.behindSeconds < 1 ? "none" : `${Math.round(log.behindSeconds)} s`}</Fact>
        <Fact name="Memory">
          {bytes(memory.rss)}, {bytes(memory.collections + memory.metadata)} of it for collections
        </Fact>
        <Fact name="Collections in the queue">{whole(queue)}</Fact>
        <Fact name="Collections in doubt">{inDoubt === 0 ? "none" : whole(inDoubt)}</Fact>
        <Fact name="Version">
          {version}, started {ago(startedAt)}
        </Fact>
      </dl>
    </Panel>
  );
}
