/** What a searched text means that can't be the address, the name or the symbol of something. */
import { isAddress, plain } from "../parts/format.ts";
import { explorerOf } from "../parts/identifier.tsx";
import { Panel } from "../parts/parts.tsx";

/** A name of ENS, or of another domain. */
const isDomain = (text: string): boolean => /^[^\s./]+(?:\.[^\s./]+)*\.\p{L}{2,}$/u.test(text);
const HEX = /^0x[0-9a-f]*$/i;
const HASH_LENGTH = 66;

/** What a text means that can't be the address, the name or the symbol of something; null if it may be one. */
export function OtherMeaning({ text }: { readonly text: string }) {
  const explorer = explorerOf("eth");
  if (isDomain(text)) {
    return (
      <Panel title="This name">
        <p>
          {plain(text)} looks like a name of ENS. This service does not resolve such names: it knows addresses, and the
          names and symbols of collections and tokens. Look up the address of the name, in a wallet
          {explorer === undefined ? "" : <ExplorerSearch explorer={explorer} text={text} />}, and search for the
          address.
        </p>
      </Panel>
    );
  }
  if (!HEX.test(text) || isAddress(text)) return null;
  return (
    <Panel title="This text">
      <p>
        {text.length === HASH_LENGTH
          ? "The hash of a transaction or a block has 64 hexadecimal digits, as this has. The service has no page for one. Search for the address of the contract."
          : `An address has 40 hexadecimal digits after 0x, and this has ${text.length - 2}. Parts of an address are found among what the service knows, below.`}
      </p>
    </Panel>
  );
}

function ExplorerSearch({ explorer, text }: { readonly explorer: string; readonly text: string }) {
  return (
    <>
      {" or at "}
      <a href={`${explorer}/search?q=${encodeURIComponent(text)}`} target="_blank" rel="noreferrer">
        {new URL(explorer).host}
      </a>
    </>
  );
}
