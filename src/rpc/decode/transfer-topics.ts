/** First topics of the events that are read as NFT transfers, computed from their signatures. */
import { id } from "ethers";
import type { Hash } from "../../core/hex.ts";

const topic = (signature: string): Hash => id(signature) as Hash;

/** ERC-721, also in its pre-standard forms. ERC-20 has the same topic. */
export const TRANSFER = topic("Transfer(address,address,uint256)");

/** ERC-1155. */
export const TRANSFER_SINGLE = topic("TransferSingle(address,address,address,uint256,uint256)");
export const TRANSFER_BATCH = topic("TransferBatch(address,address,address,uint256[],uint256[])");

/** ERC-6909. Sender, receiver and id are indexed, caller and amount are not. */
export const TRANSFER_6909 = topic("Transfer(address,address,address,uint256,uint256)");

/** ERC-2309. */
export const CONSECUTIVE_TRANSFER = topic("ConsecutiveTransfer(uint256,uint256,address,address)");

/**
 * ERC-821, the drafts behind Decentraland's LAND. From, to and id are indexed, operator and data are not
 * (github.com/decentraland/erc721: contracts/IAssetRegistry.sol for the first, contracts/IERC721Base.sol for the
 * second).
 */
export const TRANSFER_821 = topic("Transfer(address,address,uint256,address,bytes,bytes)");
export const TRANSFER_821_SECOND = topic("Transfer(address,address,uint256,address,bytes)");

/**
 * Mints and burns of the first draft's earliest logic. Holder, id and operator are indexed
 * (github.com/decentraland/land: contracts/registry/StandardAssetRegistry.sol). In other contracts these event names
 * may mean something else.
 */
export const CREATE_821 = topic("Create(address,uint256,address,string)");
export const DESTROY_821 = topic("Destroy(address,uint256,address)");

/**
 * MoonCats. Rescued: recipient and id are indexed. Adopted: id, from and to are indexed
 * (github.com/ponderware/MoonCatRescue-Contract). Genesis cats have no owner before their adoption.
 */
export const CAT_RESCUED = topic("CatRescued(address,bytes5)");
export const CAT_ADOPTED = topic("CatAdopted(bytes5,uint256,address,address)");

/** CryptoPunks. */
export const ASSIGN = topic("Assign(address,uint256)");
export const PUNK_TRANSFER = topic("PunkTransfer(address,address,uint256)");
export const PUNK_BOUGHT = topic("PunkBought(uint256,uint256,address,address)");
