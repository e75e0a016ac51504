/** Every screen of the console with something on it: a service over a local chain, and where each screen is. */
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Market } from "../../scripts/local-chain/market.ts";
import { OPERATOR_KEY, startConsoleChain } from "./console.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "./service.ts";

export const SCREENS_ENV = { OPERATOR_KEYS: OPERATOR_KEY, METADATA_ALLOW_PRIVATE: "true" };

export interface ScreenWorld {
  readonly anvil: Anvil;
  readonly market: Market;
  readonly drawn: Deployed;
  readonly badges: Deployed;
  readonly multi: Deployed;
  /** A contract that is neither a token nor a collection. */
  readonly feed: Deployed;
  readonly service: TestService;
  /** URL of the service, without a slash at the end. */
  readonly root: string;
  stop(): Promise<void>;
}

export interface ScreenCase {
  readonly place: string;
  readonly heading: RegExp;
  /** Words of the complete screen. */
  readonly words: RegExp;
  /** A button to press first. */
  readonly button?: string;
}

const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20" fill="red"/></svg>';

/** Starts the chain with its contracts, and the service that has read the collections. The caller stops it. */
export async function startScreens(): Promise<ScreenWorld> {
  const { anvil, market } = await startConsoleChain();
  const drawn = await deploy(anvil, await contractArtifact("DrawnNft"), ["Drawn", "DRW"]);
  await transact(anvil, drawn.contract, "mintMany", [anvil.accounts[1], 1, 40]);
  const badges = await deploy(anvil, await contractArtifact("Badges"), ["Badges", "BDG"]);
  await transact(anvil, badges.contract, "mint", [anvil.accounts[1], 1]);
  await transact(anvil, badges.contract, "setLocked", [1, true]);
  const multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  for (const owner of [1, 2]) await transact(anvil, multi.contract, "mint", [anvil.accounts[owner], 2n ** 255n, 9n]);
  const feed = await deploy(anvil, await contractArtifact("PriceFeed"), []);
  const document = { description: "Badges of honour", image: SVG, external_link: "https://badges.example/" };
  await transact(anvil, badges.contract, "setContractURI", [`data:application/json,${JSON.stringify(document)}`]);
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: SCREENS_ENV });
  for (const { address } of [drawn, badges, multi]) await synced(service, address);
  const stop = async () => {
    await service.stop();
    await anvil.stop();
  };
  const root = `http://127.0.0.1:${service.port}`;
  return { anvil, market, drawn, badges, multi, feed, service, root, stop };
}

/** The screens for a key of scope operate. */
export function screens({ market, drawn, badges, multi, feed }: ScreenWorld): ScreenCase[] {
  const nft = `/nft/eth/${drawn.address}`;
  const [nowhere, newcomer] = ["12", "34"].map((byte) => `0x${byte.repeat(20)}`);
  return [
    { place: "/", heading: /^Overview/, words: /Chains[\s\S]*Drawn/ },
    { place: nft, heading: /^Drawn/, words: /40 tokens at block/ },
    { place: nft, heading: /^Drawn/, words: /Colour 8 values/, button: "Traits" },
    {
      place: nft,
      heading: /^Drawn/,
      words: /from the first block, which repairs damaged data. Sure\?/,
      button: "Reindex",
    },
    { place: `${nft}?view=holders`, heading: /^Drawn/, words: /1 owner at block/ },
    { place: `${nft}?view=activity`, heading: /^Drawn/, words: /With metadata: 40 tokens[\s\S]*#40\s+minted/ },
    { place: `${nft}?view=export`, heading: /^Drawn/, words: /The file has the collection/ },
    {
      place: `${nft}/1`,
      heading: /^Edition 1$/,
      words: /Transfers, newest first[\s\S]*minted[\s\S]*0x[0-9a-f]{4}…[\s\S]*fetched/,
    },
    {
      place: `/nft/eth/${badges.address}`,
      heading: /^Badges/,
      words: /Badges of honour[\s\S]*https:\/\/badges.example/,
    },
    { place: `/nft/eth/${badges.address}/1`, heading: /^#1$/, words: /Locked\s+yes, it can't be transferred/ },
    { place: `/nft/eth/${multi.address}`, heading: /^Multi/, words: /supply 18/ },
    { place: `/nft/eth/${multi.address}?view=holders`, heading: /^Multi/, words: /2 owners at block \d+, by amount/ },
    { place: `/nft/eth/${multi.address}/${2n ** 255n}`, heading: /^#5789/, words: /2 holders[\s\S]*minted/ },
    { place: `${nft}/99`, heading: /^Token 99$/, words: /no transfer of token 99 is known/ },
    { place: "/price", heading: /^Prices/, words: /Known tokens[\s\S]*WETH[\s\S]*UNI/ },
    { place: `/price/eth/${market.demo.address}`, heading: /Price|Demo/, words: /Recompute here/ },
    {
      place: `/price/eth/${drawn.address}`,
      heading: /./,
      words: /An NFT collection: Drawn DRW[\s\S]*Open the collection/,
    },
    { place: "/operate", heading: /^Operate/, words: /OPERATOR_KEYS[\s\S]*eth_getBlockByNumber/ },
    { place: "/search/drawn", heading: /^Search: drawn/, words: /Known collections[\s\S]*Drawn/ },
    {
      place: `/search/${nowhere}`,
      heading: /^Search: 0x12/,
      words: /A wallet: an account without code[\s\S]*holds nothing/,
    },
    { place: `/nft/eth/${feed.address}`, heading: /^0x/, words: /This contract has no NFTs[\s\S]*no ERC-20 token/ },
    { place: `/nft/nowhere/${nowhere}`, heading: /^0x1212…1212/, words: /Chain: must be one of eth/ },
    {
      place: `/nft/eth/${nowhere}`,
      heading: /^Wallet 0x1212…1212/,
      words: /A wallet: an account without code[\s\S]*holds nothing/,
    },
    // Nobody asked for this one before.
    { place: `/nft/eth/${newcomer}`, heading: /^Wallet 0x3434…3434/, words: /holds nothing/ },
    { place: "/nft/eth/0x12", heading: /^This page does not exist/, words: /0x12 is no address/ },
  ];
}
