/** First topics of the events by which a contract announces that it tells something else of itself from now on. */
import { topicOf } from "../../core/keccak.ts";

/** ERC-7572: another document about the collection. */
export const CONTRACT_URI_UPDATED = topicOf("ContractURIUpdated()");

/** ERC-1967: a proxy has other logic. The second one names a beacon, whose own `Upgraded` is a log of the beacon. */
export const UPGRADED = topicOf("Upgraded(address)");
export const BEACON_UPGRADED = topicOf("BeaconUpgraded(address)");
