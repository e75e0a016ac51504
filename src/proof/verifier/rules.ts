/**
 * The rules by which a chain's blocks run contracts. The header shows most forks: many forks of Ethereum appended fields,
 * and the hash of the block is over them. Where a chain adopted a fork without such a field, a table has the block or the time.
 *
 * A fork that is known neither way leaves older rules. A run that meets an opcode or a precompile of the newer fork is then
 * refused. Costs of gas and bounds of precompiles are those of the older rules: a contract may answer otherwise by them.
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

/** A fork that became active at a block, or at a time in Unix seconds. */
interface Activation {
  readonly fork: Fork;
  readonly block?: number;
  readonly time?: number;
}

/** Fields that a fork added to headers: go-ethereum, `core/types/block.go`. */
const FORK_OF_FIELD: readonly (readonly [field: string, fork: Fork])[] = [
  ["requestsHash", "prague"],
  ["parentBeaconBlockRoot", "cancun"],
  ["withdrawalsRoot", "shanghai"],
  ["baseFeePerGas", "london"],
];

/** Blocks and times of Ethereum's forks, as the library has them. */
const ETHEREUM: readonly Activation[] = Mainnet.hardforks.flatMap(({ name, block, timestamp }): Activation[] => {
  const fork = FORKS.find((one) => one === name);
  if (fork === undefined) return [];
  const time = timestamp === undefined ? undefined : Number(timestamp);
  if (time !== undefined) return [{ fork, time }];
  return typeof block === "number" ? [{ fork, block }] : [];
});

/**
 * Forks that headers don't show, by the chain's id. Polygon: `params/config.go` of bor. BSC and Avalanche: the configurations of bnb-chain/bsc and
 * avalanchego. Osaka has no field; its times on Gnosis, BSC and the OP Stack (Karst) are from the chains' announcements.
 */
const ACTIVATIONS: ReadonlyMap<number, readonly Activation[]> = new Map<number, readonly Activation[]>([
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
  ...[10, 130, 1_868, 57_073].map((id): [number, Activation[]] => [id, [{ fork: "osaka", time: 1_783_526_401 }]]),
]);

/** Chains of Arbitrum's Nitro. Their headers have the version of ArbOS; some opcodes have meanings of their own there. */
const NITRO: ReadonlySet<number> = new Set([42_161, 42_170, 4_663]);
/** Forks by ArbOS version: OffchainLabs/go-ethereum, `params/config_arbitrum.go`. */
const ARBOS: readonly (readonly [version: number, fork: Fork])[] = [
  [50, "osaka"],
  [40, "prague"],
  [20, "cancun"],
  [11, "shanghai"],
];
/** BLOCKHASH, NUMBER and PREVRANDAO: on Nitro they are not those of the block in the header. */
const NITRO_OPCODES: readonly number[] = [0x40, 0x43, 0x44];

export interface Rules {
  readonly common: Common;
  /** Opcodes whose meaning in the block is not known here. */
  readonly unknown: readonly number[];
}

/** The rules of a block: those of its newest known fork. @throws ProofRefused if its header has another block's state root */
export function rulesOf(chainId: number, header: HeaderFields): Rules {
  const delay = delayReason(chainId, header);
  demand(delay === undefined, delay ?? "");
  const fork = FORKS[Math.max(...forksOf(chainId, header).map((one) => FORKS.indexOf(one)))] as Fork;
  const common = createCustomCommon({ chainId, name: `chain ${chainId}` }, Mainnet, { hardfork: fork });
  const unknown = new Set(NITRO.has(chainId) ? NITRO_OPCODES : []);
  // DIFFICULTY became PREVRANDAO. A chain without a beacon has a difficulty after the fork, too.
  if (FORKS.indexOf(fork) >= FORKS.indexOf("paris") && BigInt(header["difficulty"] ?? 0) !== 0n) unknown.add(0x44);
  return { common, unknown: [...unknown] };
}

/** The forks that the header, the tables or the version of ArbOS show to be active, in any order. */
function forksOf(chainId: number, header: HeaderFields): readonly Fork[] {
  const [number, time] = [Number(header["number"]), Number(header["timestamp"])];
  const byTable = (ACTIVATIONS.get(chainId) ?? []).filter(
    (since) => (since.block ?? number) <= number && (since.time ?? time) <= time,
  );
  const byField = FORK_OF_FIELD.filter(([field]) => header[field] !== undefined);
  // Bytes 16 to 23 (OffchainLabs/go-ethereum, `core/types/arb_types.go`).
  const arbos = NITRO.has(chainId) ? Number(`0x${header["mixHash"]?.slice(34, 50)}`) : 0;
  const byVersion = ARBOS.filter(([version]) => version <= arbos);
  // The merge added no field. Chains that have not merged have a difficulty.
  const isMerged = byField.length > 0 && BigInt(header["difficulty"] ?? 0) === 0n;
  return [
    chainId === 1 ? "chainstart" : "byzantium",
    ...(isMerged ? (["paris"] as const) : []),
    ...[...byField, ...byVersion].map(([, fork]) => fork),
    ...byTable.map(({ fork }) => fork),
  ];
}
