/** A collection with a history for archives: a token a block, then two moves a block, a burn, and quiet final blocks. */
import { type Anvil, inOneBlock } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";

/** Tokens, all but one of which are there in the end; and blocks that hold a log of the collection. */
export const ARCHIVED = { tokens: 240, touched: 441 } as const;
const MOVES = 200;

export async function seedArchivedCollection(anvil: Anvil): Promise<{ readonly nft: Deployed }> {
  await placeMainnet(anvil);
  const nft = await deploy(anvil, await contractArtifact("CountedNft"), ["Archived", "ARCH"]);
  const random = createRandom(7);
  const owners = new Map<number, string>();
  for (let id = 0; id < ARCHIVED.tokens; id++) {
    const owner = anvil.accounts[random.below(8)] as string;
    owners.set(id, owner);
    await transact(anvil, nft.contract, "mint", [owner, BigInt(id)]);
  }
  // Some tokens go back to their owners at once: a pair of transfers that cancel out.
  const move = async (id: number, to: string) => {
    await queue(anvil, nft.contract, "move", [owners.get(id) as string, to, BigInt(id)]);
    owners.set(id, to);
  };
  let back: { readonly id: number; readonly to: string } | undefined;
  for (let each = 0; each < MOVES; each++) {
    await inOneBlock(anvil, async () => {
      if (back === undefined) {
        const id = random.below(ARCHIVED.tokens);
        back = { id, to: owners.get(id) as string };
        await move(id, anvil.accounts[random.below(8)] as string);
      } else {
        await move(back.id, back.to);
        back = undefined;
      }
      await move(random.below(ARCHIVED.tokens), anvil.accounts[random.below(8)] as string);
    });
  }
  await transact(anvil, nft.contract, "burn", [3n]);
  await anvil.mine(80);
  return { nft };
}
