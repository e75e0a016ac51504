/** The schema of a proof, as the documents show it. What a verifier takes is stricter: `src/proof/README.md`. */
import { Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, EXAMPLE_HASH, EXAMPLE_TIME, NFT_ADDRESS, OWNER_EXAMPLE } from "../../core/examples.ts";
import {
  address,
  blockHash,
  boolean,
  int64,
  named,
  nullable,
  oneOf,
  text,
  withExample,
} from "../../core/schema-parts.ts";
import { FORMAT, PROOF_KINDS } from "../../proof/verifier/document.ts";

const hexText = (description: string, example?: string) => text(description, example, { pattern: "^0x[0-9a-f]*$" });
const mapOfHex = (description: string, example: Readonly<Record<string, string>>) =>
  withExample(Type.Object({}, { additionalProperties: hexText("Hex with 0x"), description }), example);

const facts = (description: string, example: Readonly<Record<string, string>>) =>
  withExample(Type.Object({}, { additionalProperties: Type.Unknown(), description }), example);

const CODE_HASH = `0x${"5e".repeat(32)}`;

const ProvenCall = Type.Object({
  to: address("The contract"),
  data: hexText("Data of the call, sent by the zero address without value", `0x6352211e${"1".padStart(64, "0")}`),
  ok: boolean("False if the call reverted", true),
  result: hexText("What it returned, or its revert data", `0x${OWNER_EXAMPLE.slice(2).padStart(64, "0")}`),
});

const ProvenAccount = Type.Object({
  address: address("The account"),
  codeHash: nullable(blockHash("Hash of its code; null if the account doesn't exist", CODE_HASH)),
  slots: mapOfHex("Values by slot, without leading zeros", { [`0x${"0".repeat(64)}`]: OWNER_EXAMPLE }),
});

export const ProofAnswer = named(
  "Proof",
  Type.Object(
    {
      format: oneOf([FORMAT], "Name and version of the form"),
      kind: oneOf(PROOF_KINDS, "What is proven"),
      claim: text(
        "The claim in words, and what it does not say",
        `On chain 1, at block ${EXAMPLE_BLOCK} of ${EXAMPLE_TIME} with hash ${EXAMPLE_HASH}: the owner of token 1 of the contract ${NFT_ADDRESS} is ${OWNER_EXAMPLE}, by its ownerOf.`,
      ),
      chainId: int64("EIP-155 id of the chain", 1),
      blockHash: blockHash("Hash of the block. Compare it with another source: an explorer, or another endpoint"),
      header: mapOfHex("All fields of the block's header, which make its hash", {
        ...{ number: `0x${EXAMPLE_BLOCK.toString(16)}`, stateRoot: `0x${"1c".repeat(32)}` },
      }),
      subject: facts("What the claim is about", { contract: NFT_ADDRESS, tokenId: "1", view: "ownerOf(uint256)" }),
      result: facts("What is proven of it, by name", { owner: OWNER_EXAMPLE }),
      nodes: Type.Array(hexText("RLP", "0xf90211a0"), {
        description: "Trie nodes, each once, in the order in which they are needed",
      }),
      calls: Type.Optional(
        Type.Array(named("ProvenCall", ProvenCall), { description: "The calls that show it. Absent for a transfer" }),
      ),
      state: Type.Optional(
        Type.Array(named("ProvenAccount", ProvenAccount), {
          description: "What the calls read. Absent for a transfer",
        }),
      ),
      codes: Type.Optional(mapOfHex("Codes by their hashes. Absent for a transfer", { [CODE_HASH]: "0x6080" })),
    },
    {
      description:
        "A proof that anybody can check against the block's hash, without this service and without a node: with the command line, the client, the console, or any program that follows src/proof/README.md",
    },
  ),
);
