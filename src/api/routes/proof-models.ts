/** The schema of a proof, as the documents show it. What a verifier takes is stricter: `src/proof/README.md`. */
import { Type } from "@sinclair/typebox";
import { address, blockHash, int64, named, nullable, oneOf, text } from "../../core/schema-parts.ts";
import { FORMAT, PROOF_KINDS } from "../../proof/verifier/document.ts";

const hexText = (description: string) => text(description, { pattern: "^0x[0-9a-f]*$" });
const mapOfHex = (description: string) =>
  Type.Object({}, { additionalProperties: hexText("Hex with 0x"), description });

const ProvenCall = Type.Object({
  to: address("The contract"),
  data: hexText("Data of the call, sent by the zero address without value"),
  ok: Type.Boolean({ description: "False if the call reverted" }),
  result: hexText("What it returned, or its revert data"),
});

const ProvenAccount = Type.Object({
  address: address("The account"),
  codeHash: nullable(blockHash("Hash of its code; null if the account doesn't exist")),
  slots: mapOfHex("Values by slot, without leading zeros"),
});

export const ProofAnswer = named(
  "Proof",
  Type.Object(
    {
      format: oneOf([FORMAT], "Name and version of the form"),
      kind: oneOf(PROOF_KINDS, "What is proven"),
      claim: text("The claim in words, and what it does not say"),
      chainId: int64("EIP-155 id of the chain"),
      blockHash: blockHash("Hash of the block. Compare it with another source: an explorer, or another endpoint"),
      header: mapOfHex("All fields of the block's header, which make its hash"),
      subject: Type.Object({}, { additionalProperties: Type.Unknown(), description: "What the claim is about" }),
      result: Type.Object({}, { additionalProperties: Type.Unknown(), description: "What is proven of it, by name" }),
      nodes: Type.Array(hexText("RLP"), {
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
      codes: Type.Optional(mapOfHex("Codes by their hashes. Absent for a transfer")),
    },
    {
      description:
        "A proof that anybody can check against the block's hash, without this service and without a node: with the command line, the client, the console, or any program that follows src/proof/README.md",
    },
  ),
);
