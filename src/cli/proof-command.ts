/** `proof`: gets a proof from a running service, and verifies one without any service or node. */
import { closeSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../core/errors.ts";
import { bytesText, printable } from "../core/format.ts";
import { MAX_DOCUMENT } from "../proof/verifier/document.ts";
import { CommandError, FAILED, USAGE } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, knownChain, unknownWord } from "./command.ts";
import { differencesFrom, provenHoldings } from "./proven-export.ts";

/** Bytes of a file with many proofs, or of an export. */
const MAX_FILE = 512 * 2 ** 20;

export const proofCommand: Command = {
  name: "proof",
  usage:
    "proof verify <file> [--hash 0x…] [--export <file>] | proof get <address> <token id> --url <url> [--output <file>]",
  summary: "Verifies a proof, without a service and without a node; gets one from a running service",
  maxWords: 3,
  scope: "read",
  options: {
    ...CHAIN,
    hash: { type: "string" },
    export: { type: "string" },
    owner: { type: "string" },
    block: { type: "string" },
    output: { type: "string" },
  },
  help: {
    "--hash <0x…>": "verify: the block's hash as another source has it, such as an explorer. Another one is refused",
    "--export <file>": "verify: an export of tokens, which must say what the proofs of the file show, and no more",
    "--owner <address>": "get: whose amount, for a token that may have many owners",
    "--block <number>": "get: the newest block by default. Nodes keep the state of old ones for minutes or hours",
    "--output <file>": "get: writes the proof to a new file in place of the terminal",
    ...CHAIN_HELP,
  },
  run: (run) => {
    const [action = ""] = run.words;
    if (action === "verify") return verifyFile(run);
    if (action === "get") return getProof(run);
    if (action === "") throw new CommandError("proof needs an action: verify or get", USAGE);
    throw unknownWord("action", action, ["verify", "get"]);
  },
};

async function verifyFile(run: CommandRun): Promise<number> {
  const { words, values, print, say } = run;
  const [, file, more] = words;
  if (file === undefined || more !== undefined)
    throw new CommandError("proof verify needs the name of one file", USAGE);
  const hash = values["hash"];
  if (hash !== undefined && !/^0x[0-9a-f]{64}$/i.test(String(hash))) {
    throw new CommandError("--hash: must be 0x and 64 hex digits", USAGE);
  }
  if (values["export"] !== undefined || file.endsWith(".jsonl")) return verifyMany(run, file);
  const text = textOf(file, MAX_DOCUMENT);
  // The engine takes a fifth of a second to load, which other commands need not wait for.
  const { verifyProof, ProofRefused } = await import("../proof/verifier/verify.ts");
  try {
    const proof = await verifyProof(text, { hash: hash === undefined ? undefined : String(hash) });
    if (values["json"] === true) print(JSON.stringify({ verified: true, hashCompared: hash !== undefined, ...proof }));
    else {
      print(printable(proof.claim));
      print(
        hash === undefined
          ? `verified, if ${proof.block.hash} is the hash of block ${proof.block.number}: compare it with another source, or give it as --hash`
          : "verified",
      );
    }
    return 0;
  } catch (error) {
    if (!(error instanceof ProofRefused)) throw error;
    if (values["json"] === true) print(JSON.stringify({ verified: false, reason: error.message }));
    else say(`${file} proves nothing: ${printable(error.message)}`);
    return FAILED;
  }
}

/** Differences that are told. */
const MAX_TOLD = 20;

/** Verifies a file of proofs, a document a line, and compares an export with them. */
async function verifyMany({ values, print, say }: CommandRun, file: string): Promise<number> {
  const { verifyProof, ProofRefused } = await import("../proof/verifier/verify.ts");
  const hash = values["hash"] === undefined ? undefined : String(values["hash"]);
  const lines = textOf(file, MAX_FILE).split("\n");
  const proofs: Parameters<typeof provenHoldings>[0][number][] = [];
  for (const [at, line] of lines.entries()) {
    if (line === "") continue;
    try {
      const proof = await verifyProof(line, { hash });
      const { subject } = JSON.parse(line) as { readonly subject: { readonly contract?: string } };
      proofs.push({ ...proof, contract: subject.contract ?? "" });
    } catch (error) {
      if (!(error instanceof ProofRefused)) throw error;
      say(`${file}, line ${at + 1}, proves nothing: ${printable(error.message)}`);
      return FAILED;
    }
  }
  const [first] = proofs;
  if (first === undefined) throw new CommandError(`${file} has no proof`, FAILED);
  const shown = provenHoldings(proofs);
  const given = values["export"];
  const differences = given === undefined ? [] : differencesFrom(textOf(String(given), MAX_FILE), shown);
  const facts = { documents: proofs.length, tokens: shown.owners.size + shown.amounts.size, contract: first.contract };
  if (values["json"] === true) {
    print(JSON.stringify({ verified: differences.length === 0, ...facts, block: first.block, differences }));
  } else {
    for (const one of differences.slice(0, MAX_TOLD)) say(printable(one));
    if (differences.length > MAX_TOLD) say(`and ${differences.length - MAX_TOLD} more`);
    const { number, hash: of, chainId } = first.block;
    const compared = given === undefined || differences.length > 0 ? "" : `, and ${given} says the same`;
    const rest = hash === undefined ? `, if ${of} is the hash of the block` : "";
    const what = `${facts.tokens} tokens of ${facts.contract} on chain ${chainId} at block ${number}`;
    print(`${facts.documents} proofs show the owners of ${what}${compared}${rest}`);
  }
  return differences.length === 0 ? 0 : FAILED;
}

/** @throws CommandError if the file can't be read, or is larger than it may be */
function textOf(file: string, most: number): string {
  const path = resolve(file);
  try {
    const { size } = statSync(path);
    if (size > most) throw new CommandError(`${file} has ${bytesText(size)}, more than it may have`, FAILED);
    return readFileSync(path, "utf8");
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(`${file}: ${messageOf(error)}`, FAILED);
  }
}

async function getProof(run: CommandRun): Promise<number> {
  const { words, values, print } = run;
  const [, address, id] = words;
  const [chain, owner, block] = ["chain", "owner", "block"].map((name) => values[name]);
  if (address === undefined || id === undefined)
    throw new CommandError("proof get needs an address and a token id", USAGE);
  if (block !== undefined && !/^\d{1,15}$/.test(String(block))) {
    throw new CommandError("--block: must be a number", USAGE);
  }
  const service = run.service();
  if (service === undefined)
    throw new CommandError("proof get needs --url: a running service, which has endpoints", USAGE);
  const query = {
    ...(owner === undefined ? {} : { owner: String(owner) }),
    ...(block === undefined ? {} : { as_of_block: Number(block) }),
  };
  const path = { chain: knownChain(String(chain ?? "eth"), run.chains).name, address, id };
  const { asOf: _, ...proof } = await service.ask((client) =>
    client.call("GET /api/collections/:chain/:address/tokens/:id/proof", { path, query }),
  );
  const text = `${JSON.stringify(proof)}\n`;
  const output = values["output"];
  if (output === undefined) print(text.trimEnd());
  else {
    write(String(output), text);
    const facts = { file: String(output), bytes: text.length, block: Number(proof.header["number"]) };
    print(
      values["json"] === true
        ? JSON.stringify(facts)
        : `${facts.file}  ${bytesText(text.length)}  ${printable(proof.claim)}`,
    );
  }
  return 0;
}

/** @throws CommandError if there is a file of that name */
function write(file: string, text: string): void {
  try {
    const opened = openSync(resolve(file), "wx");
    writeFileSync(opened, text);
    closeSync(opened);
  } catch (error) {
    throw new CommandError(`--output: ${messageOf(error)}`, FAILED);
  }
}
