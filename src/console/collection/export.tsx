/** Files of a collection at one block. A large one is better fetched by a program than by a browser. */
import { useState } from "preact/hooks";
import { Action } from "../parts/action.tsx";
import { commandLine, Shell } from "../parts/curl.tsx";
import { whole } from "../parts/format.ts";
import type { Where } from "../state/place.ts";
import { lineOf, quoted } from "../state/requests.ts";
import { useSession } from "../state/session.ts";

const FORMATS = ["csv", "jsonl", "parquet"] as const;
type Format = (typeof FORMATS)[number];
/** Largest file that the browser keeps in memory. */
const MOST_BYTES = 100_000_000;
/** Some browsers read the file only after the click. */
const SAVING_MS = 60_000;
/** A row of an exported token, by measure of CSV files. */
const ROW_BYTES = 250;

interface ExportOptions extends Where {
  /** The block that the page shows. By default the service exports its newest final block, which may be much older. */
  readonly block: number;
  readonly total: number;
}

export function ExportPanel({ chain, address, block, total }: ExportOptions) {
  const { client } = useSession();
  const [holders, setHolders] = useState(false);
  const lineFor = (format: Format) =>
    lineOf((one) => one.exported({ chain, address }, { format, holders, as_of_block: block })).replace(
      "curl",
      "curl -OJ",
    );
  const command = `export ${address} --chain ${quoted(chain)} --format csv --as-of ${block}${holders ? " --holders" : ""}`;
  const isLarge = total * ROW_BYTES > MOST_BYTES;
  const save = async (format: Format) => {
    const response = await client.exported({ chain, address }, { format, holders, as_of_block: block });
    const name = `${chain}-${address}-${block}.${format}`;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), SAVING_MS);
    return `Saved ${name}.`;
  };
  return (
    <>
      <p>The file has the collection at block {whole(block)}.</p>
      <label>
        <input type="checkbox" checked={holders} onChange={({ currentTarget }) => setHolders(currentTarget.checked)} />{" "}
        A row per owner, with shares, in place of a row per token
      </label>
      {isLarge ? (
        <>
          <p>The file may have more than 100 MB. Fetch it with a program:</p>
          <pre>{FORMATS.map(lineFor).join("\n")}</pre>
        </>
      ) : (
        <p class="row">
          {FORMATS.map((format) => (
            <Action key={format} name={format} work={() => save(format)} />
          ))}
        </p>
      )}
      <Shell title="The same with curl, and on the command line" lines={[lineFor("csv"), "", commandLine(command)]} />
    </>
  );
}
