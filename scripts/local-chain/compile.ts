/**
 * Compiles the Solidity of test/contracts with solc, each file by itself in one of two workers, and keeps the results
 * under node_modules/.cache. A result's key is a hash of the file, its imports, the settings and the compiler's version.
 * In: nothing. Out: one artifact per contract, by contract name. Deploying is for contracts.ts.
 */
import { mkdir, rename } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import type { InterfaceAbi } from "ethers";
import solcPackage from "solc/package.json";
import olderSolcPackage from "solc-0.7.6/package.json";

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
  "Phoenix.sol": "paris",
  // Ganache knows no later fork.
  "BatchNft.sol": "shanghai",
  "Slipstream.sol": "istanbul",
  "Exchanges.sol": "shanghai",
  "Multicall.sol": "shanghai",
  "Tokens.sol": "shanghai",
};

/** Files of exchanges that an older compiler built. */
const OLDER_COMPILERS: Record<string, CompilerPackage> = {
  "Slipstream.sol": { module: "solc-0.7.6", version: olderSolcPackage.version },
};

interface CompilerPackage {
  /** What to import. */
  readonly module: string;
  readonly version: string;
}

/** More workers than cores would only share them. */
const WORKERS = 2;

/** Artifacts by file. A file is compiled once per process. */
const compiled = new Map<string, Promise<Record<string, Artifact>>>();
let placed: Promise<Map<string, string>> | undefined;
let artifacts: Promise<Record<string, Artifact>> | undefined;

/**
 * Compiles all contracts of test/contracts, or reads them from the cache. Once per process.
 * @throws Error if two contracts share a name
 */
export function compileContracts(): Promise<Record<string, Artifact>> {
  artifacts ??= (async () => {
    const files = [...new Set((await filesByContract()).values())];
    return Object.assign({}, ...(await Promise.all(files.map(artifactsOf))));
  })();
  return artifacts;
}

/** The artifact of one contract by its Solidity name. Compiles only the file that holds it. */
export async function contractArtifact(name: string): Promise<Artifact> {
  const file = (await filesByContract()).get(name);
  const artifact = file === undefined ? undefined : (await artifactsOf(file))[name];
  if (artifact === undefined) throw new Error(`no contract named ${name} in ${CONTRACTS}`);
  return artifact;
}

/** The files of test/contracts by the contracts that they declare. */
function filesByContract(): Promise<Map<string, string>> {
  placed ??= (async () => {
    const files = new Map<string, string>();
    for await (const file of new Bun.Glob("*.sol").scan({ cwd: join(PROJECT, CONTRACTS) })) {
      const text = await Bun.file(join(PROJECT, CONTRACTS, file)).text();
      for (const [, name = ""] of text.matchAll(/^(?:abstract )?contract (\w+)/gm)) {
        if (files.has(name)) throw new Error(`two contracts are named ${name}`);
        files.set(name, file);
      }
    }
    return files;
  })();
  return placed;
}

function artifactsOf(file: string): Promise<Record<string, Artifact>> {
  const known = compiled.get(file) ?? compileFile(file);
  compiled.set(file, known);
  return known;
}

async function compileFile(file: string): Promise<Record<string, Artifact>> {
  const input = JSON.stringify(await compilerInput(file, OLDER_EVM_VERSIONS[file] ?? EVM_VERSION));
  const compiler = OLDER_COMPILERS[file] ?? { module: "solc", version: solcPackage.version };
  const key = new Bun.CryptoHasher("sha256").update(compiler.version).update(input).digest("hex");
  const cached = Bun.file(join(CACHE, `${key}.json`));
  if (await cached.exists()) return (await cached.json()) as Record<string, Artifact>;
  const found = collect(JSON.parse(await compileAside(compiler.module, input)) as CompilerOutput, file);
  await mkdir(CACHE, { recursive: true });
  const partial = join(CACHE, `${key}.${process.pid}.partial`);
  await Bun.write(partial, JSON.stringify(found));
  await rename(partial, join(CACHE, `${key}.json`));
  return found;
}

interface Job {
  readonly compiler: string;
  readonly input: string;
  readonly done: (output: string) => void;
  readonly fail: (error: Error) => void;
}

const queue: Job[] = [];
let working = 0;

/** Compiles in a worker. The compiler is 9 MB of WebAssembly and blocks its thread for seconds. */
function compileAside(compiler: string, input: string): Promise<string> {
  return new Promise((done, fail) => {
    queue.push({ compiler, input, done, fail });
    if (working < WORKERS) startWorker();
  });
}

/** Starts a worker that ends when the queue is empty. */
function startWorker(): void {
  working++;
  const worker = new Worker(new URL("./compile-worker.ts", import.meta.url).href);
  let job: Job | undefined;
  const next = () => {
    job = queue.shift();
    if (job !== undefined) worker.postMessage({ compiler: job.compiler, input: job.input });
    else {
      working--;
      worker.terminate();
    }
  };
  worker.onmessage = ({ data }: MessageEvent<string>) => {
    job?.done(data);
    next();
  };
  worker.onerror = ({ message }) => {
    job?.fail(new Error(`the compiler failed: ${message}`));
    next();
  };
  next();
}

/** Takes the contracts of one of our files out of the compiler's answer. @throws Error for any error in it */
function collect(output: CompilerOutput, file: string): Record<string, Artifact> {
  const errors = (output.errors ?? []).filter((error) => error.severity === "error");
  if (errors.length > 0) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
  const found: Record<string, Artifact> = {};
  for (const [name, { abi, evm }] of Object.entries(output.contracts?.[`${CONTRACTS}/${file}`] ?? {})) {
    // Interfaces and abstract contracts have no code.
    if (evm.bytecode.object === "") continue;
    found[name] = {
      abi,
      bytecode: `0x${evm.bytecode.object}`,
      deployedBytecode: `0x${evm.deployedBytecode.object}`,
      immutableReferences: evm.deployedBytecode.immutableReferences ?? {},
    };
  }
  return found;
}

/** The standard JSON input of one of our files, with everything it imports, so that the input alone is the cache key. */
async function compilerInput(file: string, evmVersion: string) {
  const sources: Record<string, { content: string }> = {};
  const pending = [`${CONTRACTS}/${file}`];
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
