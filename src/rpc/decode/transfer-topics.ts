/** First topics of the events that are read as NFT transfers, computed from their signatures. */
import { topicOf } from "../../core/keccak.ts";

/** ERC-721, also in its pre-standard forms. ERC-20 has the same topic. */
export const TRANSFER = topicOf("Transfer(address,address,uint256)");

/** ERC-1155. */
export const TRANSFER_SINGLE = topicOf("TransferSingle(address,address,address,uint256,uint256)");
export const TRANSFER_BATCH = topicOf("TransferBatch(address,address,address,uint256[],uint256[])");

/** ERC-6909. Sender, receiver and id are indexed, caller and amount are not. */
export const TRANSFER_6909 = topicOf("Transfer(address,address,address,uint256,uint256)");

/** ERC-2309. */
export const CONSECUTIVE_TRANSFER = topicOf("ConsecutiveTransfer(uint256,uint256,address,address)");

/**
 * ERC-821, the drafts behind Decentraland's LAND. From, to and id are indexed, operator and data are not
 * (github.com/decentraland/erc721: contracts/IAssetRegistry.sol for the first, contracts/IERC721Base.sol for the
 * second).
 */
export const TRANSFER_821 = topicOf("Transfer(address,address,uint256,address,bytes,bytes)");
export const TRANSFER_821_SECOND = topicOf("Transfer(address,address,uint256,address,bytes)");

/**
 * Mints and burns of the first draft's earliest logic. Holder, id and operator are indexed
 * (github.com/decentraland/land: contracts/registry/StandardAssetRegistry.sol). In other contracts these event names
 * may mean something else.
 */
export const CREATE_821 = topicOf("Create(address,uint256,address,string)");
export const DESTROY_821 = topicOf("Destroy(address,uint256,address)");

/**
 * MoonCats. Rescued: recipient and id are indexed. Adopted: id, from and to are indexed
 * (github.com/ponderware/MoonCatRescue-Contract). Genesis cats have no owner before their adoption.
 */
export const CAT_RESCUED = topicOf("CatRescued(address,bytes5)");
export const CAT_ADOPTED = topicOf("CatAdopted(bytes5,uint256,address,address)");

/** CryptoPunks. */
export const ASSIGN = topicOf("Assign(address,uint256)");
export const PUNK_TRANSFER = topicOf("PunkTransfer(address,address,uint256)");
export const PUNK_BOUGHT = topicOf("PunkBought(uint256,uint256,address,address)");
