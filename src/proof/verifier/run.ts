/**
 * Runs calls on the proven state of a block. The engine is `@ethereumjs/evm`. What it would have to guess ends the run: an
 * opcode or a precompile that it doesn't know, the hash of an older block, the account of the sender.
 */
import { EVM, type EVMOpts, type getOpcodesForHF, NobleBN254, type PrecompileFunc } from "@ethereumjs/evm";
import { createAddressFromString, createZeroAddress } from "@ethereumjs/util";
import { ZERO_ADDRESS } from "../../core/hex.ts";
import { CALL_GAS, type CallOutcome, type ProvenCall } from "./claim.ts";
import type { HeaderFields } from "./header.ts";
import { bytesOf, hexOf, type ProvenReads, ProvenState, RESERVED } from "./proven-state.ts";
import { demand, ProofRefused, RunTooLong } from "./refusal.ts";
import { type Rules, rulesOf } from "./rules.ts";

/** Longest time of all runs of a document, in ms. The honest ones take a few. */
const RUN_MS = 10_000;
/** Jumps between two looks at the clock. */
const JUMPS_PER_LOOK = 1_024;

const [JUMPDEST, INVALID] = [0x5b, 0xfe];
/** BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH. */
const LOOKS: readonly number[] = [0x31, 0x3b, 0x3c, 0x3f];
/** The engine, with the opcodes that end a run. */
class Engine extends EVM {
  readonly #rules: Rules;
  readonly #deadline: number;
  #jumps = 0;

  constructor(options: EVMOpts, rules: Rules, deadline: number) {
    super(options);
    this.#rules = rules;
    this.#deadline = deadline;
    this.#guard(options.stateManager as ProvenState);
  }

  #guard(state: ProvenState): void {
    const invalid = this._opcodeMap[INVALID];
    for (const [code, entry] of this._opcodeMap.entries()) {
      const isUnknown = (entry === invalid && code !== INVALID) || this.#rules.unknown.includes(code);
      if (isUnknown) this.#setHandler(code, () => refuseOpcode(code), false);
      else if (LOOKS.includes(code)) this.#setLooking(code, state);
    }
    const { opHandler } = this._opcodeMap[JUMPDEST] as OpcodeEntry;
    this.#setHandler(JUMPDEST, (...at) => {
      if (++this.#jumps % JUMPS_PER_LOOK === 0) {
        assertInTime(this.#deadline);
      }
      return opHandler(...at);
    });
  }

  /** While it runs, the opcode may look at proven accounts only. */
  #setLooking(code: number, state: ProvenState): void {
    const { opHandler } = this._opcodeMap[code] as OpcodeEntry;
    this.#setHandler(code, async (...at) => {
      state.isLooking = true;
      try {
        await opHandler(...at);
      } finally {
        state.isLooking = false;
      }
    });
  }

  #setHandler(code: number, opHandler: OpcodeEntry["opHandler"], hasGas = true): void {
    const entry = this._opcodeMap[code] as OpcodeEntry;
    const opcodeInfo = Object.assign(Object.create(Object.getPrototypeOf(entry.opcodeInfo)), entry.opcodeInfo);
    if (!hasGas) Object.assign(opcodeInfo, { isInvalid: false, dynamicGas: false, fee: 0, feeBigInt: 0n });
    this._opcodeMap[code] = { ...entry, opcodeInfo, opHandler };
  }

  override getPrecompile(address: Parameters<EVM["getPrecompile"]>[0]): PrecompileFunc | undefined {
    const known = super.getPrecompile(address);
    const name = address.toString();
    const number = BigInt(name);
    const isUnknown = known === undefined && number > 0n && number < RESERVED;
    demand(!isUnknown, `the call runs ${name}, where the chain may have a contract of its own that is not known here`);
    return known;
  }
}

/** @throws RunTooLong after the time on the monotonic clock */
function assertInTime(deadline: number): void {
  if (performance.now() >= deadline) throw new RunTooLong(RUN_MS);
}

type OpcodeEntry = ReturnType<typeof getOpcodesForHF>["opcodeMap"][number];

const refuseOpcode = (code: number): never => {
  throw new ProofRefused(`the call runs opcode 0x${code.toString(16)}, whose meaning in this block is not known here`);
};

/** A block with the calls that run on its state. */
export interface RunBlock {
  readonly chainId: number;
  readonly header: HeaderFields;
}

/**
 * Runs the calls one after the other, each on the block's own state.
 * @returns the outcome of each
 * @throws ProofRefused if a call needs what the nodes and codes don't prove, or more gas or time than a run may take
 */
export async function runCalls(
  { chainId, header }: RunBlock,
  calls: readonly ProvenCall[],
  reads: ProvenReads,
): Promise<CallOutcome[]> {
  const rules = rulesOf(chainId, header);
  const deadline = performance.now() + RUN_MS;
  const outcomes: CallOutcome[] = [];
  for (const call of calls) {
    assertInTime(deadline);
    const state = new ProvenState(reads);
    const { exceptionError, returnValue } = await runOne({ rules, header, deadline }, call, state);
    demand(exceptionError?.error !== "out of gas", `the call takes more than ${CALL_GAS} gas`);
    outcomes.push({ ok: exceptionError === undefined, result: hexOf(returnValue) });
  }
  return outcomes;
}

interface RunGround {
  readonly rules: Rules;
  readonly header: HeaderFields;
  /** On the monotonic clock. */
  readonly deadline: number;
}

async function runOne({ rules, header, deadline }: RunGround, { to, data }: ProvenCall, state: ProvenState) {
  const engine = new Engine(
    { common: rules.common, stateManager: state, blockchain: blocksBefore(header), bn254: new NobleBN254() },
    rules,
    deadline,
  );
  try {
    const { execResult } = await engine.runCall({
      caller: createZeroAddress(),
      to: createAddressFromString(to),
      data: bytesOf(data) as never,
      gasLimit: BigInt(CALL_GAS),
      gasPrice: 0n,
      skipNonceIncrement: true,
      block: blockOf(header) as never,
    });
    return execResult;
  } catch (error) {
    if (error instanceof ProofRefused) throw error;
    throw new ProofRefused(`the call can't be run here: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** What opcodes see of the block. */
function blockOf(header: HeaderFields) {
  const number = (name: string) => BigInt(header[name] ?? 0);
  return {
    header: {
      number: number("number"),
      coinbase: createAddressFromString(header["miner"] ?? ZERO_ADDRESS),
      timestamp: number("timestamp"),
      difficulty: number("difficulty"),
      prevRandao: bytesOf(header["mixHash"] ?? "0x"),
      gasLimit: number("gasLimit"),
      ...(header["baseFeePerGas"] === undefined ? {} : { baseFeePerGas: number("baseFeePerGas") }),
      slotNumber: number("slotNumber"),
      getBlobGasPrice: () => {
        throw new ProofRefused("the call reads the price of blobs, which no header has");
      },
    },
  };
}

/** The blocks that BLOCKHASH may name: of all below, the header has the hash of one. */
function blocksBefore(header: HeaderFields): NonNullable<EVMOpts["blockchain"]> {
  const blocks = {
    getBlock: async (number: number) => {
      demand(
        number === Number(header["number"]) - 1,
        `the call reads the hash of block ${number}, which no header here has`,
      );
      return { hash: () => bytesOf(header["parentHash"] ?? "0x") };
    },
    putBlock: async () => undefined,
    shallowCopy: () => blocks,
  };
  return blocks as never;
}
