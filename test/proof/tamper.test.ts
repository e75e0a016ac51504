/** A changed proof is no proof: a seeded part of what `scripts/tamper-proofs.ts` does with every byte. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createRandom } from "../../scripts/local-chain/random.ts";
import type { StateDocument } from "../../src/proof/verifier/document.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import { type ProofWorld, proverOver, startProofWorld } from "../support/proofs.ts";
import { faultOf, tampered, withChangedByte } from "../support/tamper.ts";

const CHANGES = 60;

let world: ProofWorld;
/** One document of each kind of contract. */
const documents = new Map<string, StateDocument>();

beforeAll(async () => {
  world = await startProofWorld();
  const tested = proverOver(world.anvil.url);
  const block = Number(await world.anvil.send("eth_blockNumber"));
  for (const { name, kind, subject } of world.cases) {
    if (documents.has(name)) continue;
    documents.set(name, await tested.prover.prove({ kind, subject, block, hash: undefined }));
  }
  tested.close();
});

afterAll(() => world?.stop());

describe("a changed proof of each kind of contract", () => {
  test("is refused, or is the same document", async () => {
    const random = createRandom(50);
    const others = [...documents.values()];
    const faults: string[] = [];
    for (const [name, document] of documents) {
      const honest = JSON.stringify(document);
      await verifyProof(honest);
      for (let change = 0; change < CHANGES; change++) {
        const changed =
          change % 2 === 0
            ? withChangedByte(honest, random.below(honest.length), 1 + random.below(94))
            : tampered(honest, others, random);
        const fault = await faultOf(honest, changed);
        if (fault !== undefined) faults.push(`${name}, change ${change}: ${fault}`);
      }
    }
    expect(faults).toEqual([]);
  });
});

describe("a forged proof", () => {
  const honest = () =>
    structuredClone(documents.get("ERC721")) as { -readonly [K in keyof StateDocument]: StateDocument[K] };

  test("of another block than the expected one is refused", async () => {
    const hash = `0x${"ab".repeat(32)}`;
    await expect(verifyProof(honest(), { hash })).rejects.toThrow(`and not of ${hash}`);
  });

  test("may not put a field into the header that its hash is not over", async () => {
    const forged = honest();
    forged.header = { ...forged.header, settledHeight: "0x1" };
    await expect(verifyProof(forged)).rejects.toThrow("header.settledHeight is no field of this header");
  });

  test("may not leave out a number of the header that is encoded like nothing", async () => {
    const forged = honest();
    const { blobGasUsed: _, ...header } = forged.header;
    forged.header = header;
    await expect(verifyProof(forged)).rejects.toThrow("header.blobGasUsed is missing");
  });

  test("may not write a number of the header in another way", async () => {
    const forged = honest();
    forged.header = { ...forged.header, number: `0x0${forged.header["number"]?.slice(2)}` };
    await expect(verifyProof(forged)).rejects.toThrow("header.number is not written as it must be");
  });

  test("may not carry state that its calls don't read", async () => {
    const forged = honest();
    const other = documents.get("CryptoPunks") as StateDocument;
    const more = { nodes: [...forged.nodes, ...other.nodes], codes: { ...forged.codes, ...other.codes } };
    await expect(verifyProof({ ...forged, nodes: more.nodes })).rejects.toThrow("nodes differs");
    await expect(verifyProof({ ...forged, codes: more.codes })).rejects.toThrow("codes differs");
  });

  test("may not give the state of another contract to this one", async () => {
    const forged = honest();
    const other = documents.get("ERC-404") as StateDocument;
    const { contract, tokenId } = other.subject as { contract: string; tokenId: string };
    await expect(verifyProof({ ...forged, subject: { ...forged.subject, contract, tokenId } })).rejects.toThrow(
      "does not prove",
    );
  });

  test("that is no document is refused, whatever it is", async () => {
    for (const one of [null, 7, [], {}, "", "{", { kind: "owner" }, { ...honest(), format: "evm-proof/2" }]) {
      await expect(verifyProof(one)).rejects.toThrow();
    }
    await expect(verifyProof(`"${"a".repeat(17 * 2 ** 20)}"`)).rejects.toThrow("characters");
  });
});
