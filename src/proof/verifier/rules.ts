/**
 * The rules by which a chain's blocks run contracts. A header tells most of it: each fork of Ethereum appended fields, and
 * the hash of the block is over them. Where a chain adopted a fork without its fields, a table has the block or the time.
 *
 * Rules that are older than the chain's make no false proof: the run then meets an opcode or a precompile that it doesn't
 * know, and refuses.
 */
import { type Common, createCustomCommon, Mainnet } from "@ethereumjs/common";
import { delayReason, type HeaderFields } from "./header.ts";
import { demand } from "./refusal.ts";

/** Forks that change how a call runs, in their order. */
const FORKS = [
  "chainstart",
  "homestead",
  "tangerineWhistle",
  "spuriousDragon",
  "byzantium",
  "constantinople",
  "petersburg",
  "istanbul",
  "berlin",
  "london",
  "paris",
  "shanghai",
  "cancun",
  "prague",
  "osaka",
] as const;
type Fork = (typeof FORKS)[number];

/** A fork at a block, or at a time in Unix seconds. */
interface Since {
  readonly fork: Fork;
  readonly block?: number;
  readonly time?: number;
}

/** Fields that a fork added to headers: go-ethereum, `core/types/block.go`. */
const TOLD_BY: readonly (readonly [field: string, fork: Fork])[] = [
  ["requestsHash", "prague"],
  ["parentBeaconBlockRoot", "cancun"],
  ["withdrawalsRoot", "shanghai"],
  ["baseFeePerGas", "london"],
];

/** Blocks and times of Ethereum's forks, as the library has them. */
const ETHEREUM: readonly Since[] = Mainnet.hardforks.flatMap(({ name, block, timestamp }): Since[] => {
  const fork = FORKS.find((one) => one === name);
  if (fork === undefined) return [];
  const time = timestamp === undefined ? undefined : Number(timestamp);
  if (time !== undefined) return [{ fork, time }];
  return typeof block === "number" ? [{ fork, block }] : [];
});

/**
 * What headers don't tell. Polygon: `params/config.go` of bor. BSC and Avalanche: the configurations of bnb-chain/bsc and
 * avalanchego. Osaka came without a field: on Gnosis, BSC and the OP Stack (Karst) by the chains' announcements.
 */
const TABLES: ReadonlyMap<number, readonly Since[]> = new Map<number, readonly Since[]>([
  [1, ETHEREUM],
  [
    137,
    [
      { fork: "shanghai", block: 50_523_000 },
      { fork: "cancun", block: 54_876_000 },
      { fork: "prague", block: 73_440_256 },
    ],
  ],
  [
    56,
    [
      { fork: "shanghai", time: 1_705_996_800 },
      { fork: "osaka", time: 1_777_343_400 },
    ],
  ],
  [43_114, [{ fork: "shanghai", time: 1_709_740_800 }]],
  [100, [{ fork: "osaka", time: 1_776_168_380 }]],
  ...[10, 130, 1_868, 57_073].map((id): [number, Since[]] => [id, [{ fork: "osaka", time: 1_783_526_401 }]]),
]);

/** Chains of Arbitrum's Nitro. Their headers tell the version of ArbOS; some opcodes have meanings of their own there. */
const NITRO: ReadonlySet<number> = new Set([42_161, 42_170, 4_663]);
/** Forks by ArbOS version: OffchainLabs/go-ethereum, `params/config_arbitrum.go`. */
const ARBOS: readonly (readonly [version: number, fork: Fork])[] = [
  [50, "osaka"],
  [40, "prague"],
  [20, "cancun"],
  [11, "shanghai"],
];
/** BLOCKHASH, NUMBER and PREVRANDAO: on Nitro they tell of the parent chain. */
const NITRO_OPCODES: readonly number[] = [0x40, 0x43, 0x44];

export interface Rules {
  readonly common: Common;
  /** Opcodes whose meaning on the chain is not known here. */
  readonly unknown: readonly number[];
}

/** The rules of a block. @throws ProofRefused if its header has another block's state root */
export function rulesOf(chainId: number, header: HeaderFields): Rules {
  const delay = delayReason(chainId, header);
  demand(delay === undefined, delay ?? "");
  const fork = FORKS[Math.max(...told(chainId, header).map((one) => FORKS.indexOf(one)))] as Fork;
  const common = createCustomCommon({ chainId, name: `chain ${chainId}` }, Mainnet, { hardfork: fork });
  const unknown = new Set(NITRO.has(chainId) ? NITRO_OPCODES : []);
  // DIFFICULTY became PREVRANDAO. A chain without a beacon has a difficulty after the fork, too.
  if (FORKS.indexOf(fork) >= FORKS.indexOf("paris") && BigInt(header["difficulty"] ?? 0) !== 0n) unknown.add(0x44);
  return { common, unknown: [...unknown] };
}

/** All forks that are known to be active. */
function told(chainId: number, header: HeaderFields): readonly Fork[] {
  const [number, time] = [Number(header["number"]), Number(header["timestamp"])];
  const byTable = (TABLES.get(chainId) ?? []).filter(
    (since) => (since.block ?? number) <= number && (since.time ?? time) <= time,
  );
  const byField = TOLD_BY.filter(([field]) => header[field] !== undefined);
  // Bytes 16 to 24 (OffchainLabs/go-ethereum, `core/types/arb_types.go`).
  const arbos = NITRO.has(chainId) ? Number(`0x${header["mixHash"]?.slice(34, 50)}`) : 0;
  const byVersion = ARBOS.filter(([version]) => version <= arbos);
  const isStaked = byField.length > 0 && BigInt(header["difficulty"] ?? 0) === 0n;
  return [
    chainId === 1 ? "chainstart" : "byzantium",
    ...(isStaked ? (["paris"] as const) : []),
    ...[...byField, ...byVersion].map(([, fork]) => fork),
    ...byTable.map(({ fork }) => fork),
  ];
}
