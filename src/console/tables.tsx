/** The table of collections, with a bar for each that is being indexed. */
import type { ListedCollection } from "../client/index.ts";
import { duration, plain, short } from "./format.ts";
import { Address, Bar, linkTo, Scroll } from "./parts.tsx";

/** A collection's status in words, with what a visitor can expect. */
export const STATUS_TEXT: Readonly<Record<ListedCollection["status"], string>> = {
  requested: "waits to be identified",
  indexing: "reads its history",
  joining: "joins the newest blocks",
  following: "complete",
  failing: "failed, will be tried again",
  not_nft: "is no NFT contract",
  not_a_contract: "is no contract",
  removed: "removed",
};

export function CollectionTable({ rows }: { readonly rows: readonly ListedCollection[] }) {
  return (
    <Scroll label="Collections">
      <table>
        <thead>
          <tr>
            <th scope="col">Collection</th>
            <th scope="col">Chain</th>
            <th scope="col">Address</th>
            <th scope="col">Status</th>
            <th scope="col" class="number">
              NFTs
            </th>
            <th scope="col" class="number">
              Transfers
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <CollectionRow key={`${row.chain}/${row.address}`} row={row} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function CollectionRow({ row }: { readonly row: ListedCollection }) {
  const { chain, address, name, symbol, status, percent, secondsLeft, nfts, transfers } = row;
  const title = plain(name ?? "", 40) || "unnamed";
  const left = secondsLeft === null ? "" : `, ${duration(secondsLeft)} left`;
  return (
    <tr>
      <th scope="row">
        <a href={linkTo.collection(chain, address)}>{title}</a> <small>{plain(symbol ?? "", 12)}</small>
      </th>
      <td>{chain}</td>
      <td>
        <Address value={address} />
      </td>
      <td>
        {status === "indexing" || status === "joining" ? (
          <Bar percent={percent} label={`Progress of ${title}`} />
        ) : null}
        {STATUS_TEXT[status]}
        {left}
      </td>
      <td class="number">{nfts === null ? "–" : short(nfts)}</td>
      <td class="number">{transfers === null ? "–" : short(transfers)}</td>
    </tr>
  );
}
