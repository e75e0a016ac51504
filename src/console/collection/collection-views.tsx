/** The views of a complete collection at the block of the slider: its tokens, owners, transfers and files. */
import type { AsOf, NftRecord } from "../../client/index.ts";
import { whole } from "../parts/format.ts";
import { Tabs } from "../parts/tabs.tsx";
import { blockIn, keyAt, useParameters, type Where } from "../state/place.ts";
import { type QueryState, readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { ActivityPanel } from "./activity.tsx";
import { BlockSlider } from "./block-slider.tsx";
import { type CollectionHead, type CollectionState, readHead } from "./collection-state.ts";
import { ExportPanel } from "./export.tsx";
import { GalleryPanel } from "./gallery-panel.tsx";
import { HoldersPanel } from "./holders.tsx";
import { isMulti } from "./picture.tsx";

const VIEWS = ["Gallery", "Holders", "Activity", "Export"] as const;
type ViewName = (typeof VIEWS)[number];

interface ViewsOptions extends Where {
  readonly state: CollectionState;
  /** The head of the newest block. */
  readonly newest: CollectionHead & { readonly asOf: AsOf };
  /** The first token there. */
  readonly record: NftRecord;
}

export function CollectionViews({ chain, address, state, newest, record }: ViewsOptions) {
  const { client } = useSession();
  const [parameters, change] = useParameters();
  const view = VIEWS.find((name) => name.toLowerCase() === parameters.get("view")) ?? "Gallery";
  const chosen = blockIn(parameters);
  const block = chosen !== undefined && chosen <= newest.asOf.block ? chosen : undefined;
  const at = { chain, address, block };
  const past = useQuery([...keyAt(at), "head"], (signal) => readHead(client, at, signal), {
    isOn: block !== undefined,
    keepsFormer: true,
  });
  const head: QueryState<CollectionHead> =
    block === undefined ? { kind: "ready", value: newest, isFormer: false, error: undefined } : past;
  const shownAt = readyValue(head)?.asOf ?? newest.asOf;
  const setView = (next: ViewName) => change({ view: next === "Gallery" ? undefined : next.toLowerCase() });
  const setBlock = (next: number | undefined) => change({ block: next?.toString() });
  return (
    <>
      {chosen === block ? null : (
        <p class="failure" role="status">
          The service has not read block {whole(chosen as number)} yet. This is the newest block.
        </p>
      )}
      <BlockSlider
        first={Number(record.block_number_minted)}
        newest={newest.asOf}
        {...{ shownAt, block }}
        onBlock={setBlock}
      />
      <Tabs label="Views of the collection" names={VIEWS} chosen={view} onChoose={setView}>
        {view === "Gallery" ? <GalleryPanel {...{ at, head }} /> : null}
        {view === "Holders" ? <HoldersPanel key={`${block}`} at={at} isMulti={isMulti(record)} /> : null}
        {view === "Activity" ? <ActivityPanel key={`${block}`} at={at} {...state} /> : null}
        {view === "Export" ? <ExportPanel {...{ chain, address }} total={newest.total} block={shownAt.block} /> : null}
      </Tabs>
    </>
  );
}
