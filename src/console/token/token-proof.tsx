/** A proof of a token's owner, which the browser checks itself, with the network off if a reader likes. */
import { useState } from "preact/hooks";
import { Action, Form } from "../parts/action.tsx";
import { plain, whole } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { BASE } from "../state/base.ts";
import type { TokenAt } from "../state/place.ts";
import { useSession } from "../state/session.ts";

type Verifier = typeof import("../../proof/verifier/verify.ts");

/** The verifier is a script of its own, a hundred kilobytes, that a browser loads once it is needed. */
const loadVerifier = (): Promise<Verifier> => import(new URL("console/proof.js", BASE).href);

/** A document as it came, and the verifier that will check it. */
interface ReceivedProof {
  readonly text: string;
  readonly block: number;
  readonly verifier: Verifier;
}

/** @param hasAmounts true for a token that may have many owners: a proof is about one of them */
export function TokenProof({ at, hasAmounts }: { readonly at: TokenAt; readonly hasAmounts: boolean }) {
  const { client } = useSession();
  const { chain, address, id, block } = at;
  const [received, setReceived] = useState<ReceivedProof>();
  const [owner, setOwner] = useState("");
  const ask = async () => {
    const query = { as_of_block: block, ...(hasAmounts ? { owner } : {}) };
    const path = { chain, address, id };
    const [{ asOf: _, ...proof }, verifier] = await Promise.all([
      client.call("GET /api/collections/:chain/:address/tokens/:id/proof", { path, query }),
      loadVerifier(),
    ]);
    setReceived({ text: JSON.stringify(proof), block: Number(proof.header["number"]), verifier });
    return "It has come. Nothing is checked yet.";
  };
  return (
    <Panel title="Proof">
      <p class="quiet">
        A document that shows {hasAmounts ? "what an owner holds" : "the owner"} by the state of the block itself. It
        can be checked without this service, against nothing but the block's hash. Nodes keep the state of old blocks
        for minutes or hours only.
      </p>
      {hasAmounts ? (
        <Form action="Get a proof" isDisabled={owner === ""} work={ask}>
          <label>
            Owner{" "}
            <input
              value={owner}
              placeholder="0x…"
              onInput={({ currentTarget }) => setOwner(currentTarget.value.trim())}
            />
          </label>{" "}
        </Form>
      ) : (
        <Action name="Get a proof" work={ask} />
      )}
      {received === undefined ? null : <ProofCheck key={received.text} {...received} name={`proof-${address}-${id}`} />}
    </Panel>
  );
}

function ProofCheck({ text, block, verifier, name }: ReceivedProof & { readonly name: string }) {
  const [hash, setHash] = useState("");
  const check = async () => {
    const { claim, block: of } = await verifier.verifyProof(text, { hash: hash || undefined });
    const rest =
      hash === ""
        ? `This is true if block ${whole(of.number)} has the hash ${of.hash}: compare it with another source.`
        : "The block's hash is the expected one.";
    return `Verified. ${plain(claim, 2_000)} ${rest}`;
  };
  const file = `data:application/json,${encodeURIComponent(text)}`;
  return (
    <Form action="Check in this browser" work={check}>
      <p>
        {whole(Math.ceil(text.length / 1_000))} KB, of block {whole(block)}.{" "}
        <a href={file} download={`${name}-${block}.json`}>
          Save as a file
        </a>{" "}
        for <code>proof verify</code>.
      </p>
      <label>
        The block's hash, from another source{" "}
        <input
          value={hash}
          placeholder="0x…, if you have it"
          onInput={({ currentTarget }) => setHash(currentTarget.value.trim())}
        />
      </label>{" "}
    </Form>
  );
}
