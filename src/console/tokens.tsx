/** ERC-20 tokens to choose from: those that the service knows, and those that this browser looked at last. */
import { useState } from "preact/hooks";
import type { KnownToken } from "../client/index.ts";
import { ChainMenu, useChainChoice } from "./chain-menu.tsx";
import { useAnswer } from "./hooks.ts";
import {
  AddressLink,
  apiPath,
  brief,
  Curl,
  Failure,
  Filter,
  isAddress,
  linkTo,
  Panel,
  plain,
  Table,
} from "./parts.tsx";
import { BASE, useSession } from "./session.ts";

type ShownToken = Pick<KnownToken, "chain" | "address" | "symbol" | "name">;

/** The tokens with their addresses. */
export function KnownTokenTable({ rows }: { readonly rows: readonly KnownToken[] }) {
  return (
    <Table label="ERC-20 tokens" titles={["Token", "Chain", "Address"]}>
      {rows.map(({ chain, address, symbol, name }) => (
        <tr key={`${chain}/${address}`}>
          <th scope="row">
            <a href={linkTo.price(chain, address)}>{plain(symbol, 20)}</a> <small>{plain(name ?? "", 60)}</small>
          </th>
          <td>{chain}</td>
          <td>
            <AddressLink value={address} chain={chain} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

// The tokens that were looked at last are kept on this device. Services below other paths of one origin have other tokens.

const NAME = `evm-data-tokens:${new URL(BASE).pathname}`;
const MOST_SEEN = 12;

/** Notes that a token was looked at. */
export function noteToken({ chain, address, symbol, name }: ShownToken): void {
  const others = seenTokens().filter((one) => one.chain !== chain || one.address !== address);
  localStorage.setItem(NAME, JSON.stringify([{ chain, address, symbol, name }, ...others].slice(0, MOST_SEEN)));
}

/** The tokens that were looked at, newest first. Another release may have written something else there. */
function seenTokens(): readonly ShownToken[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isToken) : [];
  } catch {
    return [];
  }
}

function isToken(one: unknown): one is ShownToken {
  const { chain, address, symbol, name = null } = (one ?? {}) as Partial<Record<keyof ShownToken, unknown>>;
  const isText = [chain, address, symbol, name ?? ""].every((part) => typeof part === "string");
  return isText && isAddress(address as string);
}

interface ChainsOptions {
  /** The enabled chains. */
  readonly chains: readonly string[];
  /** The chain of the link; undefined for the first one. */
  readonly chain: string | undefined;
}

/** Where the prices begin: the tokens that were looked at last, and those that the service knows. */
export function TokenChoice(options: ChainsOptions) {
  const seen = seenTokens();
  return (
    <>
      {seen.length === 0 ? null : (
        <Panel title="Recently viewed">
          <TokenGrid label="Recently viewed tokens" tokens={seen} hasChain={true} />
        </Panel>
      )}
      <KnownTokens {...options} />
    </>
  );
}

/** The most that the service lists at once. */
const MOST_LISTED = 500;

/** The well-known tokens of a chain, and those of the operator's token lists. */
function KnownTokens({ chains, chain: first }: ChainsOptions) {
  const { client } = useSession();
  const [chain, setChain] = useChainChoice(chains, first);
  const [text, setText] = useState("");
  const { value, error } = useAnswer((signal) => client.findTokens(text, { limit: MOST_LISTED, signal }), [text]);
  const tokens = value?.filter((one) => one.chain === chain);
  return (
    <Panel title="Known tokens">
      <p class="row">
        <ChainMenu id="known-chain" {...{ chains, chain }} onChain={setChain} />
        <Filter id="known-text" value={text} onInput={setText} />
      </p>
      <Failure error={error} />
      {tokens === undefined ? <p>Loading…</p> : null}
      {tokens?.length === 0 ? (
        <p>
          No known token of {plain(chain)} has this in its address, name or symbol. Enter its address above: any token
          has its price there.
        </p>
      ) : null}
      <TokenGrid label="Known tokens" tokens={tokens ?? []} />
      {value?.length === MOST_LISTED ? (
        <p class="quiet">The service lists {MOST_LISTED} tokens of all chains at once. The filter finds the others.</p>
      ) : null}
      <Curl requests={[{ path: apiPath(["tokens"], { text, limit: MOST_LISTED }) }]} />
    </Panel>
  );
}

interface GridOptions {
  readonly label: string;
  readonly tokens: readonly ShownToken[];
  /** True for tokens of several chains. */
  readonly hasChain?: boolean;
}

/** Links to the prices of tokens. */
function TokenGrid({ label, tokens, hasChain = false }: GridOptions) {
  if (tokens.length === 0) return null;
  return (
    <ul class="tokens" aria-label={label}>
      {tokens.map(({ chain, address, symbol, name }) => (
        <li key={`${chain}/${address}`}>
          <a href={linkTo.price(chain, address)}>
            <strong>{plain(symbol, 20)}</strong> <small>{hasChain ? chain : ""}</small>
            <br />
            <small>{plain(name ?? "", 40) || brief(address)}</small>
          </a>
        </li>
      ))}
    </ul>
  );
}
