/** The changes of one collection, on each screen that has them. */
import { ServiceError } from "../../client/index.ts";
import { Action } from "../parts/action.tsx";
import { NOT_AN_ADDRESS } from "../parts/address-form.tsx";
import { Twin } from "../parts/curl.tsx";
import { isAddress } from "../parts/format.ts";
import { linkTo, type Where } from "../state/place.ts";
import { quoted } from "../state/requests.ts";
import { useSession } from "../state/session.ts";

const CHANGES = {
  refresh: {
    name: (
      <>
        Refresh<span class="wide"> metadata</span>
      </>
    ),
    effect: "Fetches the metadata of all tokens again.",
    done: "The metadata of all tokens is fetched again.",
  },
  reindex: {
    ...{ name: "Reindex", label: "Reindex the collection", isQuestioned: true },
    effect: "Reads the whole history again from the first block, which repairs damaged data.",
    done: "The collection is indexed again.",
  },
  remove: {
    ...{ name: "Remove", label: "Remove the collection", isQuestioned: true },
    effect: "Stops indexing the collection and frees its memory. The next request for it has it indexed again.",
    done: "The collection is removed.",
  },
};
type Change = keyof typeof CHANGES;
const CHANGE_NAMES = Object.keys(CHANGES) as Change[];

/** The address is none while a visitor types one. */
interface ActionsOptions extends Where {
  /** Sends the request of a removal, on the page of the collection. */
  readonly onRemove?: (request: () => Promise<unknown>) => Promise<void>;
}

/** The changes of a collection, and its export. A key of scope read sees which scope the changes need. */
export function CollectionActions({ chain, address, onRemove }: ActionsOptions) {
  const { client, scope } = useSession();
  const isAllowed = scope === "operate";
  const perform = async (change: Change) => {
    if (!isAddress(address)) return NOT_AN_ADDRESS;
    try {
      const request = () => client[change]({ chain, address });
      await (change === "remove" && onRemove !== undefined ? onRemove(request) : request());
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) return "This collection was never requested.";
      throw error;
    }
    return CHANGES[change].done;
  };
  return (
    <section aria-label="Actions">
      <div class="row">
        {CHANGE_NAMES.map((change) => (
          <Action key={change} {...CHANGES[change]} isDisabled={!isAllowed} work={() => perform(change)} />
        ))}
        {isAddress(address) ? (
          <a class="button" href={linkTo.exported(chain, address)}>
            Export
          </a>
        ) : null}
        {isAllowed ? <ChangeLines {...{ chain, address }} /> : null}
      </div>
      {isAllowed ? null : (
        <p class="quiet">Refresh, Reindex and Remove need a key of scope operate. This key has scope read.</p>
      )}
    </section>
  );
}

/** The changes as lines for a shell. */
function ChangeLines({ chain, address }: Where) {
  const shown = isAddress(address) ? address : "<address>";
  return (
    <Twin
      calls={CHANGE_NAMES.map((change) => (client) => client[change]({ chain, address: shown }))}
      commands={CHANGE_NAMES.map((change) => `${change} ${shown} --chain ${quoted(chain)}`)}
    />
  );
}
