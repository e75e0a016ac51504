/** The line that every bench prints with its table: machine, load and versions. */
import { cpus, loadavg, totalmem } from "node:os";
import anvil from "@foundry-rs/anvil/package.json";

export function machine(): string {
  const [cpu] = cpus();
  const gib = (totalmem() / 2 ** 30).toFixed(1);
  const load = loadavg().map((value) => value.toFixed(2));
  return [
    `${cpus().length} × ${cpu?.model.trim() ?? "unknown"}, ${gib} GiB, ${process.platform} ${process.arch}`,
    `load ${load.join(" ")}, Bun ${Bun.version}, anvil ${anvil.version}`,
  ].join("; ");
}

/** Resident memory of a process. */
export function residentBytes(pid: number): number {
  const { stdout } = Bun.spawnSync(["ps", "-o", "rss=", "-p", String(pid)]);
  return Number(stdout.toString()) * 1_024;
}
