/** First topics of the events that are read as NFT transfers, computed from their signatures. */
import { id } from "ethers";
import type { Hash } from "../core/hex.ts";

const topic = (signature: string): Hash => id(signature) as Hash;

/** ERC-721, also the pre-standard forms; ERC-20 shares it. */
export const TRANSFER = topic("Transfer(address,address,uint256)");
/** ERC-1155. */
export const TRANSFER_SINGLE = topic("TransferSingle(address,address,address,uint256,uint256)");
export const TRANSFER_BATCH = topic("TransferBatch(address,address,address,uint256[],uint256[])");
/** ERC-2309. */
export const CONSECUTIVE_TRANSFER = topic("ConsecutiveTransfer(uint256,uint256,address,address)");
/** CryptoPunks. */
export const ASSIGN = topic("Assign(address,uint256)");
export const PUNK_TRANSFER = topic("PunkTransfer(address,address,uint256)");
export const PUNK_BOUGHT = topic("PunkBought(uint256,uint256,address,address)");

/** What is asked of a contract that may be any kind of NFT. */
export const NFT_TOPICS: readonly Hash[] = [
  TRANSFER,
  TRANSFER_SINGLE,
  TRANSFER_BATCH,
  CONSECUTIVE_TRANSFER,
  ASSIGN,
  PUNK_TRANSFER,
  PUNK_BOUGHT,
];
