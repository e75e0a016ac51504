/** Requests for the indexing of a list of contracts. */
import { useState } from "preact/hooks";
import type { Contract, IndexAnswer } from "../../client/index.ts";
import { Form } from "../parts/action.tsx";
import { ChainMenu, useChainChoice } from "../parts/chain-menu.tsx";
import { Twin } from "../parts/curl.tsx";
import { isAddress, plain, whole } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { quoted } from "../state/requests.ts";
import { useSession } from "../state/session.ts";
import { RequestedList } from "./index-form.tsx";

/** Contracts per request. */
const AT_ONCE = 500;

export function IndexListPanel({ chains }: { readonly chains: readonly string[] }) {
  const { client } = useSession();
  const [chain, setChain] = useChainChoice(chains);
  const [text, setText] = useState("");
  const [answers, setAnswers] = useState<IndexAnswer["items"]>([]);
  const listed = shownContracts(text, chain);
  const index = async () => {
    const contracts = contractsOf(text, chain);
    const items: IndexAnswer["items"][number][] = [];
    for (let at = 0; at < contracts.length; at += AT_ONCE)
      items.push(...(await client.index(contracts.slice(at, at + AT_ONCE))).items);
    setAnswers(items);
    return `${whole(items.length)} requested.`;
  };
  return (
    <Panel title="Index a list">
      <Form action="Index" isDisabled={text.trim() === ""} work={index}>
        <ChainMenu id="list-chain" {...{ chains, chain }} onChain={setChain} />
        <label for="list">One address per line. For another chain: chain,address</label>
        <textarea id="list" rows={4} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
      </Form>
      <RequestedList items={answers} />
      <Twin calls={[(one) => one.index(listed)]} commands={[indexCommand(listed)]} />
    </Panel>
  );
}

/** Contracts that the lines for a shell show: those of the list, or an example while it is empty or wrong. */
function shownContracts(text: string, chain: string): Contract[] {
  try {
    const contracts = contractsOf(text, chain).slice(0, AT_ONCE);
    if (contracts.length > 0) return contracts;
  } catch {
    // The button says what is wrong.
  }
  return [{ chain, address: "<address>" }];
}

/** A few contracts of one chain are arguments, and more are a file of lines like those of the list. */
function indexCommand(contracts: readonly Contract[]): string {
  const [{ chain = "eth" } = {}] = contracts;
  const isShort = contracts.length <= 3 && contracts.every((one) => one.chain === chain);
  if (!isShort) return "index --file contracts.txt --wait";
  return `index ${contracts.map(({ address }) => address).join(" ")} --chain ${quoted(chain)} --wait`;
}

/** @param on the chain of lines without one @throws Error that names the line which is none */
function contractsOf(text: string, on: string): Contract[] {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/#.*/, "").trim());
  return lines.flatMap((line, at) => {
    if (line === "") return [];
    const parts = line.split(",").map((part) => part.trim());
    const [chain, address] = parts.length === 1 ? [on, parts[0]] : parts;
    if (chain === undefined || address === undefined || !isAddress(address))
      throw new Error(`Line ${at + 1} is no address: ${plain(line, 60)}`);
    return [{ chain, address }];
  });
}
