/** From the `exchange` parameter to the pools of the token a request may use, and the name its answer carries. */
import type { Chain } from "../chains/chains.ts";
import { deploymentOf, type ExchangeChoice, exchangesOf } from "../chains/exchanges.ts";
import { invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Pool } from "./pools.ts";

export interface Selection {
  readonly accepts: (pool: Pool) => boolean;
  /** The display name of the alias that was asked for. */
  readonly exchangeName: string | undefined;
  /** A factory in no list of this chain. */
  readonly unlisted: Address | undefined;
}

/** @throws ApiError 400 when a listed exchange is not on this chain */
export function selectPools(chain: Chain, choice: ExchangeChoice | undefined): Selection {
  if (choice === undefined) return { accepts: () => true, exchangeName: undefined, unlisted: undefined };
  if (choice.kind === "listed") {
    const deployment = deploymentOf(choice.exchange, chain);
    if (deployment === undefined) throw notHere(choice.exchange.realName, chain);
    return of(deployment.factory, choice.exchange.displayName, undefined);
  }
  const { factory } = choice;
  const listed = exchangesOf(chain).some((entry) => entry.factory === factory);
  return of(factory, undefined, listed ? undefined : factory);
}

const of = (factory: Address, exchangeName: string | undefined, unlisted: Address | undefined): Selection => ({
  accepts: (pool) => pool.factory === factory,
  exchangeName,
  unlisted,
});

function notHere(name: string, chain: Chain): Error {
  const here = exchangesOf(chain).map((entry) => entry.exchange.realName);
  const there = here.length === 0 ? "there is none" : `there are ${here.join(", ")}`;
  return invalidParameter("exchange", `${name} is not on ${chain.name}; ${there}`);
}
