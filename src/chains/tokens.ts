/**
 * Tokens by chain: the connectors through which a token without a direct pool is priced, and the tokens that may be the
 * quote side of a pool. Pure data; each connector has two publishers.
 */
import { type Address, toAddress } from "../core/hex.ts";
import type { Chain, ChainName, ChainToken } from "./chains.ts";

/** Sources of addresses and decimals. Sepolia, Mumbai, Palm and BSC testnet have no candidate with two publishers. */
export const CONNECTOR_SOURCES = {
  uniswap: "npm @uniswap/default-token-list 22.21.0",
  sushi: "npm @sushiswap/default-token-list 43.3.0",
  quickswap: "npm quickswap-default-token-list 1.2.59",
  pancake: "npm @pancakeswap/tokens 0.9.1",
  joe: "npm @traderjoe-xyz/sdk 5.0.16",
  pangolin: "npm @pangolindex/sdk 5.8.8",
  aave: "npm @bgd-labs/aave-address-book 4.44.22",
  ledger: "npm @ledgerhq/cryptoassets 11.0.0",
  beefy: "npm blockchain-addressbook 0.54.111",
  factor: "npm @factordao/tokenlist 1.2.4",
  swapkit: "npm @swapkit/tokens 2.4.0",
} as const;

/** `sources`: keys of `CONNECTOR_SOURCES`, separated by spaces. */
type ConnectorRow = readonly [symbol: string, address: string, decimals: number, sources: string];

export const CONNECTORS: Readonly<Partial<Record<ChainName, readonly ConnectorRow[]>>> = {
  eth: [
    ["WBTC", "0x2260fac5e5542a773aa44fbcfedf7c193bc2c599", 8, "uniswap sushi pancake"],
    ["cbBTC", "0xcbb7c0000ab88b473b1f5afd9ef808440eed33bf", 8, "uniswap pancake aave"],
    ["tBTC", "0x18084fba666a33d37592fa2633fd49a74dd93a88", 18, "uniswap sushi aave"],
    ["renBTC", "0xeb4c2781e4eba804ce9a9803c67d0893436bb27d", 8, "sushi ledger swapkit"],
    ["UNI", "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984", 18, "uniswap sushi aave"],
    ["SUSHI", "0x6b3595068778dd592e39a122f4f5a5cf09c90fe2", 18, "uniswap sushi ledger"],
    ["CAKE", "0x152649ea73beab28c5b49b26eb48f7ead6d4c898", 18, "uniswap pancake swapkit"],
    ["LINK", "0x514910771af9ca656af840dff83e8264ecf986ca", 18, "uniswap sushi pancake"],
    ["wstETH", "0x7f39c581f595b53c5cb19bd0b3f8da6c935e2ca0", 18, "sushi pancake aave"],
    ["stETH", "0xae7ab96520de3a18e5e111b5eaab095312d7fe84", 18, "aave ledger beefy"],
    ["rETH", "0xae78736cd615f374d3085123a210448e74fc6393", 18, "pancake aave ledger"],
    ["FRAX", "0x853d955acef822db058eb8505911ed77f175b99e", 18, "uniswap sushi aave"],
    ["FXS", "0x3432b6a60d23ca0dfca7761b7ab56459d9c964d0", 18, "uniswap sushi pancake"],
    ["FEI", "0x956f47f50a910163d8bf957cf5846d573e7f87ca", 18, "sushi aave ledger"],
    ["MIM", "0x99d8a9c45b2eca8864373a26d1459e3dff1e17f3", 18, "uniswap sushi ledger"],
    ["LUSD", "0x5f98805a4e8be255a32880fdec7f6728c6568ba0", 18, "uniswap sushi aave"],
    ["TUSD", "0x0000000000085d4780b73119b644ae5ecd22b376", 18, "sushi pancake aave"],
    ["OHM", "0x64aa3364f17a4d01c6f1751fd97c2bd3d7e7f1d5", 9, "sushi ledger beefy"],
    ["SHIB", "0x95ad61b0a150d79219dcf64e1e6cc01f0b64c4ce", 18, "uniswap ledger swapkit"],
    ["HEX", "0x2b591e99afe9f32eaa6214f7b7629768c40eeb39", 8, "ledger beefy swapkit"],
  ],
  goerli: [["UNI", "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984", 18, "uniswap sushi"]],
  polygon: [
    ["WETH", "0x7ceb23fd6bc0add59e62ac25578270cff1b9f619", 18, "uniswap sushi quickswap"],
    ["WBTC", "0x1bfd67037b42cf73acf2047067bd4f2c47d9bfd6", 8, "uniswap sushi quickswap"],
    ["QUICK", "0xb5c064f955d8e7f38fe0460c556a72987494ee17", 18, "quickswap ledger beefy"],
    ["QUICK (old)", "0x831753dd7087cac61ab5644b308642cc1c33dc13", 18, "quickswap ledger beefy"],
    ["SUSHI", "0x0b3f868e0be5597d5db7feb59e1cadbb0fdda50a", 18, "sushi aave ledger"],
    ["MAI", "0xa3fa99a148fa48d14ed51d610c367c61876997f1", 18, "sushi quickswap aave"],
    ["FRAX", "0x45c32fa6df82ead1e2ef74d17b76547eddfaff89", 18, "sushi quickswap ledger"],
    ["TUSD", "0x2e1ad108ff1d8c782fcbbb89aad783ac49586756", 18, "sushi quickswap ledger"],
    ["EURA", "0xe0b52e49357fd4daf2c15e02058dce6bc0057db4", 18, "uniswap sushi quickswap"],
    ["LINK", "0x53e0bca35ec356bd5dddfebbd1fc0fd03fabad39", 18, "uniswap sushi quickswap"],
    ["AAVE", "0xd6df932a45c0f255f85145f286ea0b292b21c90b", 18, "uniswap sushi quickswap"],
    ["UNI", "0xb33eaad8d922b1083446dc23f610c2567fb5180f", 18, "uniswap sushi quickswap"],
    ["CRV", "0x172370d5cd63279efa6d502dab29171933a610af", 18, "uniswap sushi aave"],
    ["GHST", "0x385eeac5cb85a38a9a07a70c73e0a3271cfb54a7", 18, "sushi quickswap aave"],
    ["stMATIC", "0x3a58a54c066fdc0f2d55fc9c89f0415c92ebf3c4", 18, "quickswap aave ledger"],
    ["MaticX", "0xfa68fb4628dff1028cfec22b4162fccd0d45efb6", 18, "quickswap aave ledger"],
    ["wstETH", "0x03b54a6e9a984069379fae1a4fc4dbae93b3bccd", 18, "aave ledger beefy"],
    ["KLIMA", "0x4e78011ce80ee02d2c3e649fb657e45898257815", 9, "sushi quickswap ledger"],
    ["BCT", "0x2f800db0fdb5223b3c3f354886d907a671414a7f", 18, "sushi beefy"],
    ["TEL", "0xdf7837de1f2fa4631d716cf2502f8b230f1dcc32", 2, "uniswap sushi quickswap"],
  ],
  bsc: [
    ["BTCB", "0x7130d2a12b9bcbfae4f2634d864a1ee1ce3ead9c", 18, "sushi pancake aave"],
    ["ETH", "0x2170ed0880ac9a755fd29b2688956bd959f933f8", 18, "uniswap sushi pancake"],
    ["CAKE", "0x0e09fabb73bd3ade0a17ecc321fd13a19e81ce82", 18, "sushi pancake aave"],
    ["SUSHI", "0x947950bcc74888a40ffa2593c5798f11fc9124c4", 18, "uniswap sushi pancake"],
    ["UNI", "0xbf5140a22578168fd562dccf235e5d43a02ce9b1", 18, "uniswap sushi pancake"],
    ["FDUSD", "0xc5f0f7b66764f6ec8c8dff7ba683102295e16409", 18, "pancake aave ledger"],
    ["TUSD", "0x40af3827f39d0eacbf4a168f8d4ee67c121d11c9", 18, "pancake ledger swapkit"],
    ["TUSD (old)", "0x14016e85a25aeb13065688cafb43044c2ef86784", 18, "pancake ledger beefy"],
    ["UST", "0x23396cf899ca06c4472205fc903bdb4de249d6fc", 18, "sushi pancake ledger"],
    ["USDD", "0xd17479997f34dd9156deef8f95a52d81d265be9c", 18, "pancake beefy swapkit"],
    ["VAI", "0x4bd17003473389a42daf6a0a729f6fdb328bbbd7", 18, "sushi pancake ledger"],
    ["lisUSD", "0x0782b6d8c4551b9760e74c0545a9bcd90bdc41e5", 18, "pancake beefy swapkit"],
    ["FRAX", "0x90c97f71e18723b0cf0dfa30ee176ab653e89f40", 18, "uniswap sushi beefy"],
    ["XVS", "0xcf6bb5389c92bdda8a3747ddb454cb7a64626c63", 18, "sushi pancake ledger"],
    ["ALPACA", "0x8f0528ce5ef7b51152a59745befdd91d97091d2f", 18, "pancake ledger beefy"],
    ["BAKE", "0xe02df9e3e622debdd69fb838bb799e3f168902c5", 18, "sushi pancake ledger"],
    ["BSW", "0x965f527d9159dce6288a2219db51fc6eef120dd1", 18, "pancake ledger beefy"],
    ["BANANA", "0x603c7f932ed1fc6575303d8fb018fdcbb0f39a95", 18, "ledger beefy swapkit"],
    ["TWT", "0x4b0f1812e5df2a09796481ff14017e6005508003", 18, "sushi pancake ledger"],
    ["WBETH", "0xa2e3356610840701bdf5611a53974510ae27e2e1", 18, "pancake ledger beefy"],
  ],
  avalanche: [
    ["WETH.e", "0x49d5c2bdffac6ce2bfdb6640f4f80f226bc10bab", 18, "uniswap sushi aave"],
    ["WBTC.e", "0x50b7545627a5162f82a992c33b87adc75187b218", 8, "uniswap sushi aave"],
    ["BTC.b", "0x152b9d0fdc40c096757f570a51e494bd4b943e50", 8, "sushi aave beefy"],
    ["JOE", "0x6e84a6216ea6dacc71ee8e6b0a5b7322eebc0fdd", 18, "sushi joe beefy"],
    ["PNG", "0x60781c2586d68229fde47564546784ab3faca982", 18, "pangolin beefy swapkit"],
    ["SUSHI.e", "0x37b608519f91f70f2eeb0e5ed9af4061722e4f76", 18, "uniswap sushi beefy"],
    ["UNI.e", "0x8ebaf22b6f053dffeaf46f4dd9efa95d89ba8580", 18, "uniswap beefy swapkit"],
    ["USDT.e", "0xc7198437980c041c805a1edcba50c1ce5db95118", 6, "sushi aave beefy"],
    ["BUSD", "0x9c9e5fd8bbc25984b178fdce6117defa39d2db39", 18, "uniswap sushi beefy"],
    ["MIM", "0x130966628846bfd36ff31a822705796e8cb8c18d", 18, "uniswap sushi beefy"],
    ["FRAX", "0xd24c2ad096400b6fbcd2ad8b24e7acbc21a1da64", 18, "uniswap sushi aave"],
    ["EURC", "0xc891eb4cbdeff6e073e859e987815ed1505c2acd", 6, "uniswap aave beefy"],
    ["LINK.e", "0x5947bb275c521040051d82396192181b413227a3", 18, "uniswap sushi aave"],
    ["AAVE.e", "0x63a72806098bd3d9520cc43356dd78afe5d386d9", 18, "uniswap sushi aave"],
    ["sAVAX", "0x2b2c81e08f1af8835a78bb2a90ae924ace0ea4be", 18, "aave beefy swapkit"],
    ["GMX", "0x62edc0692bd897d2295872a9ffcac5425011c661", 18, "uniswap sushi beefy"],
    ["SPELL", "0xce1bffbd5374dac86a2893119683f4911a2f7814", 18, "uniswap sushi beefy"],
    ["TIME", "0xb54f16fb19478766a268f172c9480f8da1a7c9c3", 9, "sushi beefy swapkit"],
  ],
  fantom: [
    ["BOO", "0x841fad6eae12c286d1fd18d1d525dffa75c7effe", 18, "ledger beefy"],
    ["SPIRIT", "0x5cc61a78f164885776aa610fb0fe1257df78e59b", 18, "ledger beefy"],
    ["SUSHI", "0xae75a438b2e0cb8bb01ec1e1e376de11d44477cc", 18, "sushi ledger beefy"],
    ["ETH", "0x74b23882a30290451a17c44f4f05243b6b58c76d", 18, "sushi ledger beefy"],
    ["BTC", "0x321162cd933e2be498cd2267a90534a804051b11", 8, "sushi ledger beefy"],
    ["lzWETH", "0x695921034f0387eac4e11620ee91b1b15a6a09fe", 18, "sushi beefy"],
    ["lzWBTC", "0xf1648c50d2863f780c57849d812b4b7686031a3d", 8, "sushi beefy"],
    ["MIM", "0x82f0b8b456c1a451378467398982d4834b6829c1", 18, "sushi ledger beefy"],
    ["FRAX", "0xdc301622e621166bd8e82f2ca0a26c13ad0be355", 18, "sushi ledger beefy"],
    ["fUSD", "0xad84341756bf337f5a0164515b1f6f993d194e1f", 18, "sushi beefy"],
    ["MAI", "0xfb98b335551a418cd0737375a2ea0ded62ea213b", 18, "sushi beefy"],
    ["TUSD", "0x9879abdea01a879644185341f7af7d8343556b7a", 18, "ledger beefy"],
    ["LINK", "0xb3654dc3d10ea7645f8319668e8f54d2574fbdc8", 18, "sushi ledger beefy"],
    ["CRV", "0x1e4f97b9f9f913c46f1632781732927b9019c68b", 18, "sushi ledger beefy"],
    ["YFI", "0x29b0da86e484e1c0029b56e817912d778ac0ec69", 18, "sushi ledger beefy"],
    ["SPELL", "0x468003b688943977e6130f4f68f23aad939a1040", 18, "sushi ledger beefy"],
    ["FXS", "0x7d016eec9c25232b01f23ef992d98ca97fc2af5a", 18, "sushi ledger beefy"],
    ["TOMB", "0x6c021ae822bea943b2e66552bde1d2696a53fbb7", 18, "ledger beefy"],
    ["GEIST", "0xd8321aa83fb0a4ecd6348d4577431310a6e0814d", 18, "ledger beefy"],
    ["LQDR", "0x10b620b2dbac4faa7d7ffd71da486f5d44cd86f9", 18, "ledger beefy"],
  ],
  cronos: [
    ["VVS", "0x2d03bece6747adc00e1a131bba1469c15fd11e03", 18, "ledger beefy"],
    ["WETH", "0xe44fd7fcb2b1581822d0c862b68222998a0c299a", 18, "sushi ledger beefy"],
    ["WBTC", "0x062e66477faf219f25d27dced647bf57c3107d52", 8, "sushi ledger beefy"],
    ["ATOM", "0xb888d8dd1733d72681b30c00ee76bde93ae7aa93", 6, "ledger beefy"],
    ["TONIC", "0xdd73dea10abc2bff99c60882ec5b2b81bb1dc5b2", 18, "ledger beefy"],
    ["CRONA", "0xadbd1231fb360047525bedf962581f3eee7b49fe", 18, "ledger beefy"],
    ["FER", "0x39bc1e38c842c60775ce37566d03b41a7a66c782", 18, "ledger beefy"],
    ["SHIB", "0xbed48612bc69fa1cab67052b42a95fb30c1bcfee", 18, "ledger beefy"],
    ["DOGE", "0x1a8e39ae59e5556b56b76fcba98d22c9ae557396", 8, "ledger beefy"],
    ["TUSD", "0x87efb3ec1576dec8ed47e58b832bedcd86ee186e", 18, "ledger beefy"],
  ],
  arbitrum: [
    ["WBTC", "0x2f2a2543b76a4166549f7aab2e75bef0aefc5b0f", 8, "uniswap sushi pancake"],
    ["ARB", "0x912ce59144191c1204e64559fe8253a0e49e6548", 18, "uniswap sushi pancake"],
    ["GRAIL", "0x3d9907f9a368ad0a51be60f7da3b97cf940982d8", 18, "factor swapkit"],
    ["SUSHI", "0xd4d42f0b6def4ce0383636770ef773390d85c61a", 18, "uniswap sushi ledger"],
    ["CAKE", "0x1b896893dfc86bb67cf57767298b9073d2c1ba2c", 18, "pancake beefy factor"],
    ["JOE", "0x371c7ec6d8039ff7933a2aa28eb827ffe1f52f07", 18, "joe beefy factor"],
    ["UNI", "0xfa7f8980b0f1e64a2062791cc3b0871572f1f7f0", 18, "uniswap sushi ledger"],
    ["LINK", "0xf97f4df75117a78c1a5a0dbb814af92458539fb4", 18, "uniswap sushi pancake"],
    ["FRAX", "0x17fc002b466eec40dae837fc4be5c67993ddbd6f", 18, "sushi aave ledger"],
    ["MIM", "0xfea7a6a0b346362bf88a9e4a88416b77a57d6c2a", 18, "sushi pancake ledger"],
    ["LUSD", "0x93b346b6bc2548da6a1e7d98e9a421b42541425b", 18, "uniswap aave beefy"],
    ["USDe", "0x5d3a1ff2b6bab83b63cd9ad0787074081a52ef34", 18, "pancake beefy factor"],
    ["wstETH", "0x5979d7b546e38e414f7e9822514be443a4800529", 18, "pancake aave beefy"],
    ["rETH", "0xec70dcb4a1efa46b8f2d97c310c9c4790ba5ffa8", 18, "pancake aave ledger"],
    ["weETH", "0x35751007a407ca6feffe80b3cb397736d2cf4dbe", 18, "pancake aave beefy"],
    ["GMX", "0xfc5a1a6eb076a2c7ad06ed22c90d7e710e35ad0a", 18, "uniswap sushi pancake"],
    ["MAGIC", "0x539bde0d7dbd336b79148aa742883198bbf60342", 18, "uniswap sushi pancake"],
    ["DPX", "0x6c2c06790b3e3e3c38e12ee22f8183b37a13ee55", 18, "sushi ledger beefy"],
    ["RDNT", "0x3082cc23568ea640225c2467653db90e9250aaa0", 18, "sushi pancake beefy"],
    ["gOHM", "0x8d9ba570d6cb60c7e3e0f31343efe75ab8e65fb1", 18, "sushi ledger beefy"],
  ],
};

const BY_CHAIN = new Map<ChainName, readonly ChainToken[]>(
  Object.entries(CONNECTORS).map(([chain, rows]) => [
    chain as ChainName,
    rows.map(([symbol, address, decimals]) => ({ symbol, address: toAddress(address), decimals })),
  ]),
);

/** The connectors of a chain besides its wrapped native coin and its stablecoins, in the order of trial. */
export const connectorsOf = (chain: Chain): readonly ChainToken[] => BY_CHAIN.get(chain.name) ?? [];

/** Wrapped native coin, stablecoins and connectors: every token that may be the quote side of a pool. */
export function referenceTokens(chain: Chain): readonly ChainToken[] {
  return [chain.wrappedNative, ...chain.stablecoins, ...connectorsOf(chain)];
}

interface TokenSets {
  readonly money: ReadonlySet<Address>;
  readonly references: ReadonlySet<Address>;
}

const SETS = new WeakMap<Chain, TokenSets>();

function setsOf(chain: Chain): TokenSets {
  const kept = SETS.get(chain);
  if (kept !== undefined) return kept;
  const money = new Set([chain.wrappedNative, ...chain.stablecoins].map(({ address }) => address));
  const sets = { money, references: new Set(referenceTokens(chain).map(({ address }) => address)) };
  SETS.set(chain, sets);
  return sets;
}

/** True if a token is the wrapped native coin or a stablecoin: every price route ends in one of these. */
export const isMoney = (chain: Chain, address: Address): boolean => setsOf(chain).money.has(address);

/** True if a token belongs to the chain's reference tokens. */
export const isReference = (chain: Chain, address: Address): boolean => setsOf(chain).references.has(address);

/** True if both are reference tokens and one is the native coin or a stablecoin, so that a pool leads to the dollar. */
export const isReferencePair = (chain: Chain, a: Address, b: Address): boolean =>
  isReference(chain, a) && isReference(chain, b) && (isMoney(chain, a) || isMoney(chain, b));
