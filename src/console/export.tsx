/** Files of a collection at one block. A large one is better fetched by a program than by a browser. */
import { useState } from "preact/hooks";
import { whole } from "./format.ts";
import { useAction, useSession } from "./hooks.ts";
import { commandLine, quoted } from "./parts.tsx";
import { BASE } from "./session.ts";

const FORMATS = ["csv", "jsonl", "parquet"] as const;
/** Largest file that the browser keeps in memory. */
const MOST_BYTES = 100_000_000;
/** Some browsers read the file only after the click. */
const SAVING_MS = 60_000;
/** A row of an exported token, by measure of CSV files. */
const ROW_BYTES = 250;

interface ExportOptions {
  readonly chain: string;
  readonly address: string;
  /** The block that the page shows. By default the service exports its newest final block, which may be much older. */
  readonly block: number;
  readonly total: number;
}

export function ExportPanel({ chain, address, block, total }: ExportOptions) {
  const { client } = useSession();
  const [holders, setHolders] = useState(false);
  const [state, run, isBusy] = useAction();
  const query = (format: string) => {
    const parts = new URLSearchParams({ format, holders: String(holders), as_of_block: String(block) });
    return `api/collections/${encodeURIComponent(chain)}/${address}/export?${parts}`;
  };
  const isLarge = total * ROW_BYTES > MOST_BYTES;
  const save = (format: (typeof FORMATS)[number]) =>
    run(async () => {
      const response = await client.exported({ chain, address }, { format, holders, as_of_block: block });
      const name = `${chain}-${address}-${block}.${format}`;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), SAVING_MS);
      return `Saved ${name}.`;
    });
  return (
    <>
      <p>The file has the collection after block {whole(block)}.</p>
      <label>
        <input type="checkbox" checked={holders} onChange={({ currentTarget }) => setHolders(currentTarget.checked)} />{" "}
        A row per owner, with shares, in place of a row per token
      </label>
      {isLarge ? (
        <>
          <p>The file may have more than 100 MB. Fetch it with a program:</p>
          <pre>
            {FORMATS.map((format) => `curl -OJ -H "X-API-Key: $KEY" ${quoted(BASE + query(format))}`).join("\n")}
          </pre>
        </>
      ) : (
        <p class="row">
          {FORMATS.map((format) => (
            <button key={format} type="button" disabled={isBusy} onClick={() => save(format)}>
              {format}
            </button>
          ))}
          <span role="status">{state}</span>
        </p>
      )}
      <details class="curl">
        <summary>The same with curl</summary>
        <pre>
          {`curl -OJ -H "X-API-Key: $KEY" ${quoted(BASE + query("csv"))}\n\n${commandLine(`export ${address} --chain ${quoted(chain)} --format csv --as-of ${block}${holders ? " --holders" : ""}`)}`}
        </pre>
      </details>
    </>
  );
}
