/** `proof`: gets a proof from a running service, and verifies one without any service or node. */
import { closeSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../core/errors.ts";
import { bytesText, printable } from "../core/format.ts";
import { MAX_DOCUMENT } from "../proof/verifier/document.ts";
import { CommandError, FAILED, USAGE } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, knownChain, unknownWord } from "./command.ts";

export const proofCommand: Command = {
  name: "proof",
  usage: "proof verify <file> [--hash 0x…] | proof get <address> <token id> --url <url> [--output <file>]",
  summary: "Verifies a proof, without a service and without a node; gets one from a running service",
  maxWords: 3,
  scope: "read",
  options: {
    ...CHAIN,
    hash: { type: "string" },
    owner: { type: "string" },
    block: { type: "string" },
    output: { type: "string" },
  },
  help: {
    "--hash <0x…>": "verify: the block's hash as another source has it, such as an explorer. Another one is refused",
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

async function verifyFile({ words, values, print, say }: CommandRun): Promise<number> {
  const [, file, more] = words;
  if (file === undefined || more !== undefined)
    throw new CommandError("proof verify needs the name of one file", USAGE);
  const hash = values["hash"];
  if (hash !== undefined && !/^0x[0-9a-f]{64}$/i.test(String(hash))) {
    throw new CommandError("--hash: must be 0x and 64 hex digits", USAGE);
  }
  const text = textOf(file);
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

/** @throws CommandError if the file can't be read, or is larger than any proof */
function textOf(file: string): string {
  const path = resolve(file);
  try {
    const { size } = statSync(path);
    if (size > MAX_DOCUMENT) throw new CommandError(`${file} has ${bytesText(size)}, more than any proof`, FAILED);
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
  const path = { chain: knownChain(String(chain ?? "eth")).name, address, id };
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
