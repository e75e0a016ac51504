/** Compiles a contract of the sources as its file says, to compare the result with the code that the program has. */
import { basename, join } from "node:path";
import solc from "solc";

/**
 * Returns the code of the contract `name` in a file below `src`, in hex without 0x: by the optimiser with 200 runs over
 * the IR, for the EVM of Paris, without metadata.
 * @param part `bytecode` to create it, `deployedBytecode` as it stands on a chain
 */
export async function codeOf(file: string, name: string, part: "bytecode" | "deployedBytecode"): Promise<string> {
  const settings = {
    ...{ optimizer: { enabled: true, runs: 200 }, viaIR: true, evmVersion: "paris" },
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": [`evm.${part}.object`] } },
  };
  const content = await Bun.file(join(import.meta.dir, "../../src", file)).text();
  const sources = { [basename(file)]: { content } };
  const compiled = JSON.parse(solc.compile(JSON.stringify({ language: "Solidity", sources, settings })));
  return compiled.contracts[basename(file)][name].evm[part].object;
}
