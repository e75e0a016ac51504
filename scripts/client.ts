/**
 * The client for JavaScript programs: `bun scripts/client.ts types` writes its types from the service's operations, which
 * git does not keep, and
 * `bun scripts/client.ts pack [folder]` makes a tarball of JavaScript with types, for browsers, Node and Bun.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TSchema } from "@sinclair/typebox";
import { $ } from "bun";
import { operationsOf } from "../src/api/app.ts";
import { documented, schemasOf } from "../src/api/openapi.ts";
import type { Operation } from "../src/api/wire/operation.ts";
import { CHAIN_NAMES } from "../src/client/chain-names.ts";
import { SERVER_MESSAGES } from "../src/push/message-models.ts";

const ROOT = resolve(import.meta.dir, "..");
const SOURCE = join(ROOT, "src/client");
const TYPES = join(SOURCE, "types.ts");
interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly nullable?: boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly description?: string;
}

/** Returns the TypeScript type of a schema. */
function typeOf(schema: Schema): string {
  const plain = plainType(schema);
  return schema.nullable === true && !plain.endsWith(" | null") ? `${plain} | null` : plain;
}

function plainType(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
  const either = schema.oneOf ?? schema.anyOf;
  if (either !== undefined) return either.map(typeOf).join(" | ");
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  switch (schema.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return `readonly (${typeOf(schema.items ?? {})})[]`;
    case "object":
      return objectType(schema);
    default:
      return "unknown";
  }
}

function objectType({ properties = {}, required = [], additionalProperties }: Schema): string {
  const fields = Object.entries(properties).map(([name, field]) => {
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    const comment = field.description === undefined ? "" : `  /** ${field.description} */\n`;
    return `${comment}  readonly ${key}${required.includes(name) ? "" : "?"}: ${typeOf(field)};`;
  });
  const others = Object.keys(properties).length > 0 ? "unknown" : typeOf(additionalProperties as Schema);
  if (additionalProperties) fields.push(`  readonly [name: string]: ${others};`);
  return fields.length === 0 ? "Record<string, unknown>" : `{\n${fields.join("\n")}\n}`;
}

/** A field may have two forms, as the server's `WIRE_TYPES` sets it. */
function bothForms(seed: Schema, native: Schema): Schema {
  if (seed.type === "object" && seed.properties !== undefined) {
    const fields = Object.entries(seed.properties).map(([name, field]) => {
      return [name, bothForms(field, native.properties?.[name] ?? field)] as const;
    });
    return { ...seed, properties: Object.fromEntries(fields) };
  }
  if (typeOf(seed) === typeOf(native)) return seed;
  const [one, other] = [seed, native].map((form) => ({ ...form, nullable: false }));
  return {
    oneOf: [one as Schema, other as Schema],
    nullable: seed.nullable === true,
    ...(seed.description === undefined ? {} : { description: seed.description }),
  };
}

/** The type of a query: all parameters are optional, and undefined ones are left out. A newer service may have more chains. */
function queryType(query: Operation<never>["query"]): string {
  const fields = Object.entries(query).map(([name, { schema, description }]) => {
    const type = name === "chain" ? "string" : typeOf(schema as Schema);
    return `  /** ${description} */\n  readonly ${name}?: ${type} | undefined;`;
  });
  return fields.length === 0 ? "Record<never, never>" : `{\n${fields.join("\n")}\n}`;
}

/** The type of one operation: what a request has, and its answer if that is JSON. */
function operationType({ parts, query, body, answer }: Operation<never>): string {
  const path = Object.entries(parts).map(([name, { schema }]) => `readonly ${name}: ${typeOf(schema as Schema)}`);
  const shown = (schema: TSchema) => typeOf(documented(schema, "seed", new Map()) as Schema);
  const answered = "schema" in answer ? shown(answer.schema) : "Response";
  return [
    `{ readonly path: { ${path.join("; ")} }; readonly query: ${queryType(query)};`,
    `readonly body: ${body === undefined ? "undefined" : shown(body)}; readonly answer: ${answered} }`,
  ].join("\n");
}

/** Returns the text of the client's types: bodies, operations and messages. */
export function clientTypes(): string {
  const operations = operationsOf(500) as readonly Operation<never>[];
  const [seed, native] = [schemasOf(operations, "seed"), schemasOf(operations, "native")] as Record<string, Schema>[];
  const models = Object.entries(seed ?? {}).map(([name, schema]) => {
    return `export type ${name} = ${typeOf(bothForms(schema, native?.[name] ?? schema))};`;
  });
  const messages = Object.entries(SERVER_MESSAGES).map(([name, schema]) => {
    return `/** ${schema.description} */\nexport type ${name} = ${typeOf(schema as unknown as Schema)};`;
  });
  const calls = operations.map((one) => `/** ${one.summary} */\n"${one.method} ${one.path}": ${operationType(one)};`);
  return [
    "/** Bodies, operations and messages of the service. Made by `bun scripts/client.ts types` from their schemas. */",
    ...models,
    `export type Operations = {\n${calls.join("\n")}\n};`,
    ...messages,
    `export type ServerMessage = ${Object.keys(SERVER_MESSAGES).join(" | ")};`,
    'export type MessageOf<T extends ServerMessage["type"]> = Extract<ServerMessage, { type: T }>;\n',
  ].join("\n\n");
}

/** What the verifier of proofs runs on. */
const VERIFIER_PACKAGES = [
  ...["@ethereumjs/common", "@ethereumjs/evm", "@ethereumjs/statemanager", "@ethereumjs/util", "ethers"],
] as const;

/** Writes the verifier of proofs, whose packages stay outside, and its types. */
async function packVerifier(work: string): Promise<void> {
  const entry = join(SOURCE, "proof.ts");
  const options = { target: "browser", format: "esm" } as const;
  const built = await Bun.build({ entrypoints: [entry], external: [...VERIFIER_PACKAGES], ...options });
  const [script] = built.outputs;
  if (!built.success || script === undefined) throw new Error(built.logs.join("\n"));
  writeFileSync(join(work, "proof.js"), await script.text());
  const out = ["--declaration", "--emitDeclarationOnly", "--noEmit", "false", "--outDir", join(work, "proof-types")];
  const lib = ["--target", "ESNext", "--lib", "ESNext,DOM", "--module", "Preserve", "--moduleResolution", "bundler"];
  const strict = ["--strict", "--skipLibCheck", "--rewriteRelativeImportExtensions", "--rootDir", join(ROOT, "src")];
  await $`${process.execPath} x tsc ${out} ${lib} ${strict} --types bun-types --ignoreConfig ${entry}`.cwd(ROOT);
}

/** Makes the tarball. Returns its path. */
export async function packClient(folder: string): Promise<string> {
  const { version, license, dependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    readonly version: string;
    readonly license: string;
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const work = mkdtempSync(join(tmpdir(), "client-"));
  try {
    // The tarball has no server, so what the client takes from its sources is written out.
    const client = join(work, "client");
    cpSync(SOURCE, client, { recursive: true });
    writeFileSync(join(client, "types.ts"), clientTypes());
    const names = `export const CHAIN_NAMES: Readonly<Record<string, string>> = ${JSON.stringify(CHAIN_NAMES)};\n`;
    writeFileSync(join(client, "chain-names.ts"), names);
    const entry = join(client, "index.ts");
    const built = await Bun.build({ entrypoints: [entry], target: "browser", format: "esm" });
    const [script] = built.outputs;
    if (!built.success || script === undefined) throw new Error(built.logs.join("\n"));
    writeFileSync(join(work, "index.js"), await script.text());
    const options = ["--declaration", "--emitDeclarationOnly", "--noEmit", "false", "--outDir", join(work, "types")];
    const lib = ["--target", "ESNext", "--lib", "ESNext,DOM", "--module", "Preserve", "--moduleResolution", "bundler"];
    const strict = ["--strict", "--rewriteRelativeImportExtensions", "--types", ""];
    await $`${process.execPath} x tsc ${options} ${lib} ${strict} --ignoreConfig ${entry}`.cwd(ROOT);
    rmSync(client, { recursive: true });
    await packVerifier(work);
    const manifest = {
      name: "evm-data-client",
      version,
      license,
      description: "Client of the EVM data service: NFT listings, token prices, live messages",
      type: "module",
      sideEffects: false,
      exports: {
        ".": { types: "./types/index.d.ts", default: "./index.js" },
        "./proof": { types: "./proof-types/client/proof.d.ts", default: "./proof.js" },
      },
      files: ["index.js", "proof.js", "types", "proof-types"],
      // For `evm-data-client/proof` alone.
      peerDependencies: Object.fromEntries(VERIFIER_PACKAGES.map((name) => [name, dependencies[name]])),
      peerDependenciesMeta: Object.fromEntries(VERIFIER_PACKAGES.map((name) => [name, { optional: true }])),
    };
    writeFileSync(join(work, "package.json"), JSON.stringify(manifest, null, 2));
    writeFileSync(join(work, "README.md"), readFileSync(join(SOURCE, "README.md")));
    mkdirSync(folder, { recursive: true });
    await $`${process.execPath} pm pack --destination ${folder} --quiet`.cwd(work).quiet();
    return join(folder, `evm-data-client-${version}.tgz`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [command, folder = "dist"] = process.argv.slice(2);
  if (command === "types") writeFileSync(TYPES, clientTypes());
  else if (command === "pack") console.log(await packClient(resolve(folder)));
  else {
    console.error("usage: bun scripts/client.ts types | pack [folder]");
    process.exitCode = 64;
  }
}
