/**
 * Faults of the machine are not facts about a picture: the image library's binary is missing, the preview process is
 * killed or stopped. Metadata runs as in the service, with real processes and real signals.
 */
import { afterEach, describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { metadataStream } from "../../../src/events/types.ts";
import { toBlob } from "../../../src/nft/metadata/outcome-documents.ts";
import { recordingLogger } from "../../support/logged.ts";
import { addressOf, type RunningMetadata, type RunningOptions, startMetadata } from "../../support/metadata/running.ts";
import { eventually } from "../../support/service.ts";

const A = addressOf("a");
const COUNT = 20;
const REPOSITORY = fileURLToPath(new URL("../../..", import.meta.url));

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) await close();
});

async function run(options: Omit<RunningOptions, "stories">, uris: readonly string[]): Promise<RunningMetadata> {
  const running = await startMetadata({ ...options, stories: { [A]: uris } });
  closers.push(() => running.stop());
  await running.settled(A, uris.length);
  return running;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "machine-faults-"));
  closers.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Token URIs with different drawings. @param work about a third of a second to render each */
const drawings = (count: number, work = 0): string[] =>
  Array.from({ length: count }, (_, id) => {
    const step = '<feTurbulence baseFrequency="0.3" numOctaves="9"/><feGaussianBlur stdDeviation="3"/>';
    const filter = work === 0 ? "" : `<filter id="f">${step.repeat(work)}</filter>`;
    const rect = `<rect width="500" height="${500 - id}" fill="red" ${work === 0 ? "" : 'filter="url(#f)"'}/>`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 500">${filter}${rect}</svg>`;
    const image = `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`;
    return `data:application/json,${JSON.stringify({ image })}`;
  });
/** A drawing that takes longer than any test waits for it. */
const ENDLESS = 100;

/** A copy of the sources whose image library has no binary. `repair` adds it. */
function withoutBinary(): { readonly entry: string; readonly repair: () => void } {
  const folder = temporaryFolder();
  const modules = join(REPOSITORY, "node_modules");
  cpSync(join(REPOSITORY, "src"), join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, "node_modules"));
  for (const name of readdirSync(modules)) {
    if (name === "@img") continue;
    const [from, to] = [join(modules, name), join(folder, "node_modules", name)];
    // A link would lead the library to the binary beside it.
    if (name === "sharp") cpSync(from, to, { recursive: true });
    else symlinkSync(from, to);
  }
  return {
    entry: join(folder, "src/nft/metadata/media/preview-process.ts"),
    repair: () => {
      for (const name of readdirSync(join(modules, "@img"))) {
        cpSync(join(modules, "@img", name), join(folder, "node_modules/@img", name), { recursive: true });
      }
    },
  };
}

/** Ticks of processor time that the start of a preview process takes at most. A tick is a hundredth of a second. */
const START_TICKS = 60;

/** Processor time of a process in ticks. */
function ticksOf(pid: number): number {
  const [, after = ""] = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ");
  const fields = after.split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

/** Ids of the preview processes of this process that have started and work on a picture. */
function previewProcesses(): number[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "latin1").split(" ").filter(Boolean);
  return children.map(Number).filter((pid) => {
    try {
      return (
        readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("preview-process.ts") && ticksOf(pid) > START_TICKS
      );
    } catch {
      return false;
    }
  });
}

/** Reads the page, which requests the pictures, until all have a result. Returns the number of pictures by status. */
async function statuses(running: RunningMetadata, count: number): Promise<Record<string, number>> {
  const probe = async () => {
    const found = (await running.page(A, count, { mediaItems: true })).map(({ media }) => JSON.parse(media).status);
    if (found.includes("processing")) return undefined;
    return Object.fromEntries([...Map.groupBy(found, String)].map(([status, { length }]) => [status, length]));
  };
  return eventually("all pictures have a result", probe, 60_000);
}

describe("without the image library's binary", () => {
  test("no picture gets a result, one line says why, and a restart with the binary resolves all", async () => {
    const folder = temporaryFolder();
    const { entry } = withoutBinary();
    const { logger, lines } = recordingLogger("debug");
    const reports = () => lines.filter(({ msg }) => msg.includes("preview process can't start"));
    const broken = await run({ folder, previewEntry: entry, logger }, drawings(COUNT));
    await broken.page(A, COUNT, { mediaItems: true });
    await eventually("the start was tried again", async () => (reports().length >= 2 ? true : undefined));
    expect(reports().filter(({ level }) => level > 20)).toHaveLength(1);
    expect(reports()[0]).toMatchObject({ level: 50, reason: "it ended with exit code 1" });
    expect(Object.fromEntries(broken.pictures)).toEqual({});
    await broken.stop();
    closers.splice(closers.length - 1);
    const repaired = await run({ folder }, drawings(COUNT));
    expect(await statuses(repaired, COUNT)).toEqual({ success: COUNT });
  });

  test("the waiting pictures are examined without a restart or a request once the binary is there", async () => {
    const { entry, repair } = withoutBinary();
    const { logger, lines } = recordingLogger("info");
    const running = await run({ previewEntry: entry, logger }, drawings(3));
    await running.page(A, 3, { mediaItems: true });
    const isSaid = (text: string) => async () => (lines.some(({ msg }) => msg.includes(text)) ? true : undefined);
    await eventually("the fault is said", isSaid("can't start"));
    repair();
    await eventually("the pictures are examined", async () =>
      running.pictures.get("success") === 3 ? true : undefined,
    );
    await eventually("the recovery is said", isSaid("works again"));
    expect(Object.fromEntries(running.pictures)).toEqual({ success: 3 });
  });
});

describe.skipIf(!existsSync(`/proc/self/task/${process.pid}/children`))("a preview process", () => {
  /** Sends a signal to preview processes at work, each to another one, up to `times` or until it is over. */
  async function signal(name: "SIGKILL" | "SIGSTOP", times: number, isOver = () => false): Promise<number> {
    const hit = new Set<number>();
    const probe = async () => {
      for (const pid of previewProcesses()) {
        if (hit.has(pid) || hit.size >= times) continue;
        process.kill(pid, name);
        hit.add(pid);
      }
      return hit.size >= times || isOver() ? true : undefined;
    };
    await eventually(`${times} processes got ${name}`, probe, 60_000);
    return hit.size;
  }

  test("that is killed again and again costs no picture its result", async () => {
    const running = await run({}, drawings(8, 2));
    await running.page(A, 8, { mediaItems: true });
    expect(await signal("SIGKILL", 4)).toBe(4);
    expect(await statuses(running, 8)).toEqual({ success: 8 });
  });

  test("that is killed at four tries of a picture makes it temporarily unavailable, and a later read tries again", async () => {
    const skipped = { ms: 0 };
    const clock: Clock = { ...systemClock, now: () => Date.now() + skipped.ms };
    const running = await run({ clock }, drawings(1, 10));
    await running.page(A, 1, { mediaItems: true });
    const kills = signal("SIGKILL", 100, () => running.pictures.size > 0);
    expect(await statuses(running, 1)).toEqual({ temporarily_unavailable: 1 });
    expect(await kills).toBe(4);
    skipped.ms = 600_000;
    await running.page(A, 1, { mediaItems: true });
    await eventually("the picture is examined again", async () =>
      running.pictures.get("success") === 1 ? true : undefined,
    );
  });

  /** A limit of three seconds per picture instead of fifteen. */
  const hasty: Clock = {
    ...systemClock,
    after: (ms, callback) => systemClock.after(ms === 15_000 ? 3_000 : ms, callback),
  };

  test("that exceeds the time limit once, on a busy machine, costs no picture its result", async () => {
    const running = await run({ clock: hasty }, drawings(2, 2));
    await running.page(A, 2, { mediaItems: true });
    expect(await signal("SIGSTOP", 1)).toBe(1);
    expect(await statuses(running, 2)).toEqual({ success: 2 });
  });

  test("that exceeds the time limit twice with the same picture makes that picture unsupported", async () => {
    const running = await run({ clock: hasty }, [...drawings(1), ...drawings(1, ENDLESS)]);
    expect(await statuses(running, 2)).toEqual({ success: 1, unsupported_media: 1 });
  });
});

test("examines a picture anew that an older version recorded as unsupported", async () => {
  const uris = drawings(1);
  const running = await run({}, uris);
  const uri = JSON.parse(uris[0]!.slice("data:application/json,".length)).image;
  const old = { uri, status: "unsupported_media", mimetype: "image/svg+xml", category: null, parentHash: null };
  const hash = await running.log.putBlob(toBlob({ ...old, updatedAt: Date.now(), previews: [], version: 1 }));
  const stream = metadataStream(1, A);
  const tokens = encodeTokens([{ kind: TransferKind.erc721, id: 0n, hash }]);
  await eventually("the old result is appended", async () => {
    const { version } = await running.log.head(stream);
    const events = [{ type: "MediaExamined", count: 1, tokens } as const];
    return running.log.append({ stream, events, expectedVersion: version }).then(
      () => true,
      () => undefined,
    );
  });
  await eventually("the new result is shown", async () =>
    (await statuses(running, 1))["success"] === 1 ? true : undefined,
  );
});
