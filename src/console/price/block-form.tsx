/** The choice of the block of a price, by its number or by a time. */
import { useState } from "preact/hooks";
import { Form } from "../parts/action.tsx";
import { Field } from "../parts/fields.tsx";
import type { Where } from "../state/place.ts";
import { useSession } from "../state/session.ts";

/** The choice of the block, by its number or by a time. */
export function BlockForm({
  chain,
  address,
  block,
  onBlock,
}: Where & { readonly block: number | undefined; readonly onBlock: (block: number | undefined) => void }) {
  const { client } = useSession();
  const [text, setText] = useState(block?.toString() ?? "");
  const show = async () => {
    const moment = momentOf(text.trim());
    if (moment === undefined)
      return "Enter the number of a block, or a time in UTC such as 2026-01-31 or 2026-01-31 12:30.";
    if (typeof moment !== "string") onBlock(moment.block);
    else {
      // The last block at or before the time.
      const { result } = await client.priceSeries({ chain, address }, { from: moment, to: moment, points: 1 });
      if (result[0] === undefined) return "No block of that time is known.";
      onBlock(result[0].block);
    }
    return "";
  };
  const newest = (
    <button type="button" onClick={() => onBlock(undefined)}>
      Newest
    </button>
  );
  return (
    <Form action="Go" work={show} more={block === undefined ? null : newest}>
      <Field id="at" label="Block" value={text} placeholder="newest, or a time in UTC" onInput={setText} />
    </Form>
  );
}

/** A block, or an ISO time; undefined if the text is neither. An empty text is the newest block. */
function momentOf(text: string): { readonly block: number | undefined } | string | undefined {
  if (text === "") return { block: undefined };
  if (/^\d{1,15}$/.test(text)) return { block: Number(text) };
  const [, day, time, zone = "Z"] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?\s*(Z|UTC|[+-]\d\d:\d\d)?$/i.exec(text) ?? [];
  if (day === undefined) return undefined;
  const iso = `${day}T${time ?? "00:00"}${zone.toUpperCase() === "UTC" ? "Z" : zone.toUpperCase()}`;
  return Number.isNaN(Date.parse(iso)) ? undefined : new Date(iso).toISOString();
}
