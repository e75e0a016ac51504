/** First topics of the events by which a contract announces that it tells something else of itself from now on. */
import { id } from "ethers";
import type { Hash } from "../../core/hex.ts";

/** ERC-7572: another document about the collection. */
export const CONTRACT_URI_UPDATED = id("ContractURIUpdated()") as Hash;

/** ERC-1967: a proxy has other logic. The second one names a beacon, whose own `Upgraded` is a log of the beacon. */
export const UPGRADED = id("Upgraded(address)") as Hash;
export const BEACON_UPGRADED = id("BeaconUpgraded(address)") as Hash;
