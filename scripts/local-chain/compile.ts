/**
 * Compiles the Solidity of test/contracts with solc and keeps the result under node_modules/.cache, keyed by a hash of
 * every source (imports included), the settings and the compiler's version; a second run only reads the cache.
 * In: nothing. Out: one artifact per contract, by contract name. Deploying is for contracts.ts.
 */
import { mkdir, rename } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import type { InterfaceAbi } from "ethers";
import solcPackage from "solc/package.json";

/** Positions of immutables in the runtime code, by the compiler's id of the variable. */
export type ImmutableReferences = Record<string, { start: number; length: number }[]>;

export interface Artifact {
  abi: InterfaceAbi;
  /** Creation code, 0x-prefixed. */
  bytecode: string;
  /** Runtime code, 0x-prefixed, with zeros where immutables go. */
  deployedBytecode: string;
  immutableReferences: ImmutableReferences;
}

interface CompilerOutput {
  errors?: { severity: string; formattedMessage: string }[];
  contracts?: Record<string, Record<string, CompiledContract>>;
}

interface CompiledContract {
  abi: InterfaceAbi;
  evm: {
    bytecode: { object: string };
    deployedBytecode: { object: string; immutableReferences?: ImmutableReferences };
  };
}

const PROJECT = join(import.meta.dir, "..", "..");
const CONTRACTS = "test/contracts";
const CACHE = join(PROJECT, "node_modules", ".cache", "local-chain");

// OpenZeppelin 5.7 needs mcopy (cancun). Contracts for older forks are compiled separately.
const EVM_VERSION = "cancun";
const OLDER_EVM_VERSIONS: Record<string, string> = {
  "Destructible.sol": "paris",
  // Ganache knows no later fork.
  "BatchNft.sol": "shanghai",
  "Exchanges.sol": "shanghai",
  "Multicall.sol": "shanghai",
  "Tokens.sol": "shanghai",
};

let compiled: Promise<Record<string, Artifact>> | undefined;

/** Compiles all contracts of test/contracts, or reads them from the cache. Once per process. */
export function compileContracts(): Promise<Record<string, Artifact>> {
  compiled ??= compileAll();
  return compiled;
}

/** The artifact of one contract by its Solidity name. */
export async function contractArtifact(name: string): Promise<Artifact> {
  const artifact = (await compileContracts())[name];
  if (artifact === undefined) throw new Error(`no contract named ${name} in ${CONTRACTS}`);
  return artifact;
}

async function compileAll(): Promise<Record<string, Artifact>> {
  const files = await Array.fromAsync(new Bun.Glob("*.sol").scan({ cwd: join(PROJECT, CONTRACTS) }));
  const groups = Map.groupBy(files.sort(), (file) => OLDER_EVM_VERSIONS[file] ?? EVM_VERSION);
  const inputs = [];
  for (const [evmVersion, members] of groups) {
    inputs.push({ members, input: await compilerInput(members, evmVersion) });
  }

  const key = new Bun.CryptoHasher("sha256").update(solcPackage.version).update(JSON.stringify(inputs)).digest("hex");
  const cached = Bun.file(join(CACHE, `${key}.json`));
  if (await cached.exists()) return (await cached.json()) as Record<string, Artifact>;

  // The compiler is 9 MB of WebAssembly: it is loaded only when there is something to compile.
  const { default: solc } = await import("solc");
  const artifacts: Record<string, Artifact> = {};
  for (const { members, input } of inputs) {
    const output = JSON.parse(solc.compile(JSON.stringify(input))) as CompilerOutput;
    collect(output, members, artifacts);
  }
  await mkdir(CACHE, { recursive: true });
  const partial = join(CACHE, `${key}.${process.pid}.partial`);
  await Bun.write(partial, JSON.stringify(artifacts));
  await rename(partial, join(CACHE, `${key}.json`));
  return artifacts;
}

/** Takes the contracts of some of our files out of the compiler's answer and throws on any error in it. */
function collect(output: CompilerOutput, members: readonly string[], artifacts: Record<string, Artifact>): void {
  const errors = (output.errors ?? []).filter((error) => error.severity === "error");
  if (errors.length > 0) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
  for (const file of members) {
    for (const [name, { abi, evm }] of Object.entries(output.contracts?.[`${CONTRACTS}/${file}`] ?? {})) {
      // Interfaces and abstract contracts have no code.
      if (evm.bytecode.object === "") continue;
      if (artifacts[name] !== undefined) throw new Error(`two contracts are named ${name}`);
      artifacts[name] = {
        abi,
        bytecode: `0x${evm.bytecode.object}`,
        deployedBytecode: `0x${evm.deployedBytecode.object}`,
        immutableReferences: evm.deployedBytecode.immutableReferences ?? {},
      };
    }
  }
}

/**
 * The standard JSON input of some of our files, with everything they import, so that the input alone is the cache key.
 */
async function compilerInput(files: readonly string[], evmVersion: string) {
  const sources: Record<string, { content: string }> = {};
  const pending = files.map((file) => `${CONTRACTS}/${file}`);
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (sources[name] !== undefined) continue;
    const content = await Bun.file(sourcePath(name)).text();
    sources[name] = { content };
    for (const target of importsOf(content)) {
      pending.push(target.startsWith(".") ? posix.join(posix.dirname(name), target) : target);
    }
  }
  return {
    language: "Solidity",
    sources: Object.fromEntries(Object.entries(sources).sort(([a], [b]) => (a < b ? -1 : 1))),
    settings: {
      evmVersion,
      optimizer: { enabled: true, runs: 200 },
      outputSelection: {
        "*": {
          "*": [
            "abi",
            "evm.bytecode.object",
            "evm.deployedBytecode.object",
            "evm.deployedBytecode.immutableReferences",
          ],
        },
      },
    },
  };
}

/** Our own files lie in the project; everything else is `package/path` and is found the way modules are. */
function sourcePath(name: string): string {
  if (name.startsWith(`${CONTRACTS}/`)) return join(PROJECT, name);
  const [scopeOrName = "", second = ""] = name.split("/");
  const packageName = scopeOrName.startsWith("@") ? `${scopeOrName}/${second}` : scopeOrName;
  const root = dirname(Bun.resolveSync(`${packageName}/package.json`, import.meta.dir));
  return join(root, name.slice(packageName.length + 1));
}

function importsOf(content: string): string[] {
  const statements = content.matchAll(/^\s*import\s[^;]*?["']([^"']+)["']\s*;/gm);
  return [...statements].map((statement) => statement[1] ?? "");
}

// `bun scripts/local-chain/compile.ts` fills the cache, so that no test has to wait for the compiler.
if (import.meta.main) await compileContracts();
