/**
 * Contract calls on a synthetic chain, alone or by Multicall3: those of identification, metadata and the self-audit.
 */
import { Interface } from "ethers";
import type { History } from "./history.ts";
import { MULTICALL3 } from "./options.ts";

const ABI = new Interface([
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])",
  "function getBlockNumber() view returns (uint256)",
  "function supportsInterface(bytes4) view returns (bool)",
  "function name() view returns (string)",
  "function symbol() view returns (string)",
  "function ownerOf(uint256) view returns (address)",
  "function tokenURI(uint256) view returns (string)",
]);
const INTERFACES = { erc165: "0x01ffc9a7", erc721: "0x80ac58cd", erc1155: "0xd9b67a26" } as const;
const ATTRIBUTES = ["Background", "Body", "Eyes", "Head", "Mouth"] as const;

export class Calls {
  readonly #histories: ReadonlyMap<string, History>;
  readonly #head: number;

  constructor(histories: ReadonlyMap<string, History>, head: number) {
    this.#histories = histories;
    this.#head = head;
  }

  /** Return data as hex; undefined if the call reverts. */
  answer(to: string, data: string): string | undefined {
    const target = to.toLowerCase();
    const call = ABI.parseTransaction({ data });
    if (call === null) return undefined;
    const encode = (...values: unknown[]) => ABI.encodeFunctionResult(call.fragment, values);
    if (target === MULTICALL3) {
      if (call.name === "getBlockNumber") return encode(this.#head);
      if (call.name === "aggregate3") return encode(this.#aggregate(call.args[0]));
      return undefined;
    }
    const history = this.#histories.get(target);
    if (history === undefined) return undefined;
    switch (call.name) {
      case "supportsInterface":
        return encode([INTERFACES.erc165, INTERFACES[history.standard]].includes(call.args[0]));
      case "name":
        return encode("Synthetic Apes");
      case "symbol":
        return encode("SAPE");
      case "ownerOf": {
        const owner = history.standard === "erc721" ? history.ownerOf(call.args[0]) : undefined;
        return owner === undefined ? undefined : encode(owner);
      }
      case "tokenURI":
        return history.tokenUris ? encode(metadataUri(call.args[0])) : undefined;
      default:
        return undefined;
    }
  }

  #aggregate(calls: Iterable<{ target: string; callData: string }>): [boolean, string][] {
    return Array.from(calls, ({ target, callData }) => {
      const data = this.answer(target, callData);
      return [data !== undefined, data ?? "0x"];
    });
  }
}

/** A token's metadata, as on-chain collections return it. */
function metadataUri(token: bigint): string {
  const attributes = ATTRIBUTES.map((trait_type, i) => ({
    trait_type,
    value: `${trait_type} ${Number(token % 97n) + i}`,
  }));
  const image = `ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/${token}.png`;
  return `data:application/json;utf8,${JSON.stringify({ name: `Ape #${token}`, image, attributes })}`;
}
