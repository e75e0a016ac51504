/** What a screen does, as lines for a shell: requests with curl, and commands. */
import { BASE, SERVICE_PROGRAM } from "../state/base.ts";
import { lineOf } from "../state/requests.ts";
import { useSession } from "../state/session.ts";
import { useWatched } from "../state/watched.ts";

/** Lines for a shell, closed at first. */
export const Shell = ({ title, lines }: { readonly title: string; readonly lines: readonly string[] }) => (
  <details class="curl">
    <summary>{title}</summary>
    <pre>{lines.join("\n")}</pre>
  </details>
);

/** The requests that the screen has sent so far. */
export function SentRequestsLines() {
  const lines = [...useWatched(useSession().sent).values()];
  if (lines.length === 0) return null;
  const hasSocket = lines.some((line) => line.startsWith("wscat"));
  return <Shell title={`The same with curl${hasSocket ? " and wscat" : ""}`} lines={lines} />;
}

interface TwinOptions {
  /** Calls whose requests are shown. They are not sent. */
  readonly calls?: readonly Parameters<typeof lineOf>[0][];
  readonly commands: readonly string[];
}

/** What buttons would send, as lines for a shell, and the commands that do the same. */
export const Twin = ({ calls = [], commands }: TwinOptions) => (
  <Shell
    title={calls.length === 0 ? "The same on the command line" : "The same with curl, and on the command line"}
    lines={[...calls.map(lineOf), ...(calls.length === 0 ? [] : [""]), ...commands.map(commandLine)]}
  />
);

/** A command for this service as a line for a shell. */
export const commandLine = (command: string): string =>
  `SERVICE_KEY="$KEY" ${SERVICE_PROGRAM} ${command} --url ${BASE.replace(/\/$/, "")}`;
