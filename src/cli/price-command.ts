/** `price`: the price of a token with the pools that it comes from. */
import type { TokenPrice } from "../client/index.ts";
import { printable } from "../core/format.ts";
import { CommandError, USAGE } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, contractOf } from "./command.ts";
import { openNodeReader } from "./own-service.ts";
import { tableText } from "./terminal.ts";

export const priceCommand: Command = {
  name: "price",
  usage: "price <address> [--block N] [--chain eth]",
  summary: "Shows the price of a token, and the state of each pool that it is computed from",
  maxWords: 1,
  scope: "read",
  options: { ...CHAIN, block: { type: "string" } },
  help: { "--block <number>": "The price at the end of that block; the newest by default", ...CHAIN_HELP },
  run: async (run) => {
    const contract = contractOf(run, "price");
    const { block } = run.values;
    if (block !== undefined && !/^\d{1,15}$/.test(String(block)))
      throw new CommandError("--block: must be a number", USAGE);
    const query = {
      chain: contract.chain,
      include: ["provenance"],
      to_block: block === undefined ? undefined : Number(block),
    };
    await using service = await openNodeReader(run, contract);
    const { asOf: _, ...price } = await service.ask((client) => client.price(contract.address, query));
    if (run.values["json"] === true) run.print(JSON.stringify(price, null, 2));
    else for (const line of priceLines(price)) run.print(line);
    return 0;
  },
};

function priceLines({
  tokenName,
  tokenSymbol,
  usdPriceFormatted,
  nativePrice,
  toBlock,
  provenance,
}: TokenPrice): string[] {
  const { route = [], liquidityUsd, confidence, spreadPercent, twap30m, factsOf } = provenance ?? {};
  const native = nativePrice === null ? "" : ` · ${nativeText(nativePrice)}`;
  const rows = route.map(({ pool, exchange, fee, reserve0, reserve1, sqrtPriceX96, block }) => {
    const state = sqrtPriceX96 === undefined ? `${reserve0} / ${reserve1}` : `sqrtPriceX96 ${sqrtPriceX96}`;
    return [exchange, pool, `${fee / 10_000} %`, state, String(block)];
  });
  return [
    `${printable(tokenName)} (${printable(tokenSymbol)}): $${usdPriceFormatted}${native}, at block ${toBlock}`,
    `depth $${liquidityUsd} · confidence ${confidence} · spread ${spreadPercent} % · 30-minute average ${twap30m ?? "–"}`,
    ...(factsOf === "newest" ? ["the node lacks the block's state: name, symbol and decimals are today's"] : []),
    "",
    tableText(["EXCHANGE", "POOL", "FEE", "STATE", "BLOCK"], rows),
  ];
}

/** `0.1234 ETH`, from the smallest unit. */
function nativeText({ value, decimals, symbol }: NonNullable<TokenPrice["nativePrice"]>): string {
  const digits = value.padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return `${digits.slice(0, -decimals)}${fraction === "" ? "" : `.${fraction}`} ${symbol}`;
}
