/** `price`: the price of a token with the pools that it comes from. */
import { CommandError, USAGE } from "./access.ts";
import { contractOf } from "./change-commands.ts";
import type { Command } from "./command.ts";
import { serviceOf } from "./command.ts";
import { printable, tableText } from "./terminal.ts";

/** The part of the answer that is shown. */
interface Price {
  readonly tokenName: string;
  readonly tokenSymbol: string;
  readonly usdPriceFormatted: string;
  readonly nativePrice: { readonly value: string; readonly decimals: number; readonly symbol: string } | null;
  readonly toBlock: string;
  readonly provenance: {
    readonly route: readonly {
      readonly pool: string;
      readonly exchange: string;
      readonly fee: number;
      readonly reserve0?: string;
      readonly reserve1?: string;
      readonly sqrtPriceX96?: string;
      readonly block: number;
    }[];
    readonly liquidityUsd: string;
    readonly confidence: string;
    readonly spreadPercent: string;
    readonly twap30m: string | null;
  };
}

export const priceCommand: Command = {
  name: "price",
  usage: "price <address> [--block N] [--chain eth]",
  summary: "Shows the price of a token, and the state of each pool that it is computed from",
  maxWords: 1,
  scope: "read",
  options: { chain: { type: "string" }, block: { type: "string" } },
  help: {
    "--block <number>": "The price at the end of that block; the newest by default",
    "--chain <name>": "eth by default",
  },
  run: async (run) => {
    const { chain, address } = contractOf(run, "price");
    const { block } = run.values;
    if (block !== undefined && !/^\d{1,15}$/.test(String(block)))
      throw new CommandError("--block: must be a number", USAGE);
    const query = new URLSearchParams({ chain, include: "provenance" });
    if (block !== undefined) query.set("to_block", String(block));
    const work = await serviceOf(run);
    try {
      const price = await work.operator.request<Price>("GET", `/api/v2/erc20/${address}/price?${query}`);
      if (run.values["json"] === true) run.print(JSON.stringify(price, null, 2));
      else for (const line of priceLines(price)) run.print(line);
      return 0;
    } finally {
      await work.close();
    }
  },
};

function priceLines({ tokenName, tokenSymbol, usdPriceFormatted, nativePrice, toBlock, provenance }: Price): string[] {
  const { route, liquidityUsd, confidence, spreadPercent, twap30m } = provenance;
  const native = nativePrice === null ? "" : ` · ${nativeText(nativePrice)}`;
  const rows = route.map(({ pool, exchange, fee, reserve0, reserve1, sqrtPriceX96, block }) => {
    const state = sqrtPriceX96 === undefined ? `${reserve0} / ${reserve1}` : `sqrtPriceX96 ${sqrtPriceX96}`;
    return [exchange, pool, `${fee / 10_000} %`, state, String(block)];
  });
  return [
    `${printable(tokenName)} (${printable(tokenSymbol)}): $${usdPriceFormatted}${native}, at block ${toBlock}`,
    `depth $${liquidityUsd} · confidence ${confidence} · spread ${spreadPercent} % · 30-minute average ${twap30m ?? "–"}`,
    "",
    tableText(["EXCHANGE", "POOL", "FEE", "STATE", "BLOCK"], rows),
  ];
}

/** `0.1234 ETH`, from the smallest unit. */
function nativeText({ value, decimals, symbol }: NonNullable<Price["nativePrice"]>): string {
  const digits = value.padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return `${digits.slice(0, -decimals)}${fraction === "" ? "" : `.${fraction}`} ${symbol}`;
}
