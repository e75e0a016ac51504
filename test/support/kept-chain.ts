/** A local chain that goes back to where it was, so that each test begins on the same short chain. */
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { eventually } from "./service.ts";

export interface KeptChain {
  /** Takes back all blocks since the chain was kept. */
  back(): Promise<void>;
}

/** Keeps the chain as it is. A block costs anvil the more the longer its chain is: two milliseconds after 1,500. */
export async function keepChain(anvil: Anvil): Promise<KeptChain> {
  let kept = await anvil.send("evm_snapshot");
  return {
    async back() {
      // A mined transaction leaves the pool a moment later, and would take one of the same number with it.
      await eventually("the pool is empty", async () => {
        const { pending } = (await anvil.send("txpool_status")) as { readonly pending: string };
        return pending === "0x0" || undefined;
      });
      await anvil.send("evm_revert", [kept]);
      // Going back ends a snapshot.
      kept = await anvil.send("evm_snapshot");
    },
  };
}
