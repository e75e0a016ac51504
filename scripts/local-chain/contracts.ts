/**
 * Deploys contracts on a local chain, sends transactions to them and reads from them, through anvil's unlocked
 * accounts. In: an artifact of compile.ts or of a package. Out: an address and an ethers `Contract` that reads over the
 * same node.
 */
import { Contract, type ContractRunner, Interface, type InterfaceAbi, type TransactionRequest } from "ethers";
import { type Anvil, AnvilError, quantity, TRANSACTION_GAS } from "./anvil.ts";

/** The parts of a compiled contract that a deployment needs. */
export interface Deployable {
  abi: InterfaceAbi;
  bytecode: string;
}

export interface Deployed {
  /** With checksum. */
  address: string;
  /** Reads with `contract.getFunction(name)(...)`; it cannot send. */
  contract: Contract;
  /** The block that holds the creation. */
  blockNumber: number;
}

export interface SendOptions {
  /** Any address, with or without a key. Default: the first account. */
  from?: string;
  /** Wei. */
  value?: bigint;
}

/** The fields of a JSON-RPC receipt that tests use, as the node wrote them. */
export interface Receipt {
  status: string;
  transactionHash: string;
  blockHash: string;
  blockNumber: string;
  contractAddress: string | null;
  gasUsed: string;
  logs: { address: string; topics: string[]; data: string; logIndex: string }[];
}

/** A transaction before the node's defaults; without `to` it creates a contract. */
interface UnsentTransaction extends SendOptions {
  to?: string;
  data: string;
}

/** Deploys a contract and resolves once the creation is mined. */
export async function deploy(
  anvil: Anvil,
  artifact: Deployable,
  args: readonly unknown[] = [],
  options: SendOptions = {},
): Promise<Deployed> {
  const interface_ = new Interface(artifact.abi);
  const data = artifact.bytecode + interface_.encodeDeploy(args).slice(2);
  const receipt = await sendMined(anvil, { ...options, data });
  if (receipt.contractAddress === null) throw new Error("the creation has no address");
  const contract = contractAt(anvil, receipt.contractAddress, artifact.abi);
  return { address: await contract.getAddress(), contract, blockNumber: Number(receipt.blockNumber) };
}

/** A contract that is there already. */
export function contractAt(anvil: Anvil, address: string, abi: InterfaceAbi): Contract {
  return new Contract(address, abi, readingRunner(anvil));
}

/** Sends one call and resolves with its receipt. Throws when it reverts. Not inside `inOneBlock`: see `queue`. */
export async function transact(
  anvil: Anvil,
  contract: Contract,
  method: string,
  args: readonly unknown[] = [],
  options: SendOptions = {},
): Promise<Receipt> {
  return await sendMined(anvil, await prepare(contract, method, args, options));
}

/** Encodes one call without sending it, for a replacement transaction of `reorg` or a call of one's own. */
export async function prepare(
  contract: Contract,
  method: string,
  args: readonly unknown[] = [],
  options: SendOptions = {},
): Promise<SendOptions & { to: string; data: string }> {
  const data = contract.interface.encodeFunctionData(method, args);
  return { ...options, to: await contract.getAddress(), data };
}

/** Sends one call without waiting for a block, for use inside `inOneBlock`. Resolves with the transaction's hash. */
export async function queue(
  anvil: Anvil,
  contract: Contract,
  method: string,
  args: readonly unknown[] = [],
  options: SendOptions = {},
): Promise<string> {
  const transaction = rpcTransaction(anvil, await prepare(contract, method, args, options));
  return (await anvil.send("eth_sendTransaction", [transaction])) as string;
}

/** Calls a view. The caller states the type that the ABI gives; a single value comes alone. */
export async function read<T>(contract: Contract, method: string, args: readonly unknown[] = []): Promise<T> {
  return (await contract.getFunction(method).staticCall(...args)) as T;
}

/** The receipt of a mined transaction, or undefined when it is not in the chain (any more). */
export async function receiptOf(anvil: Anvil, hash: string): Promise<Receipt | undefined> {
  return ((await anvil.send("eth_getTransactionReceipt", [hash])) as Receipt | null) ?? undefined;
}

/** Puts code at an address. It belongs to the state from the next block on, and a deeper reorg takes it away. */
export async function placeCode(anvil: Anvil, address: string, code: string): Promise<void> {
  await anvil.send("anvil_setCode", [address, code.startsWith("0x") ? code : `0x${code}`]);
}

/**
 * Puts a copy of a contract at another address: its code, and its first slots, which hold short strings and numbers. The
 * original must not have been used.
 */
export async function placeCopy(
  anvil: Anvil,
  { address, contract, blockNumber }: Deployed,
  at: string,
): Promise<Deployed> {
  await placeCode(anvil, at, (await anvil.send("eth_getCode", [address, "latest"])) as string);
  for (let slot = 0; slot < COPIED_SLOTS; slot++) {
    const value = (await anvil.send("eth_getStorageAt", [address, quantity(slot), "latest"])) as string;
    await placeSlot(anvil, at, slot, value);
  }
  return { address: at, contract: contract.attach(at) as Contract, blockNumber };
}

/** Name and symbol of a contract of OpenZeppelin, and the slots of its own variables. */
const COPIED_SLOTS = 8;

/** Writes one storage slot. `value` is a number, or 32 bytes in hexadecimal. */
export async function placeSlot(anvil: Anvil, address: string, slot: number, value: bigint | string): Promise<void> {
  const hex = typeof value === "string" ? value.replace(/^0x/, "") : value.toString(16);
  await anvil.send("anvil_setStorageAt", [address, quantity(slot), `0x${hex.padStart(64, "0")}`]);
}

function rpcTransaction(anvil: Anvil, { from, to, data, value }: UnsentTransaction) {
  return {
    from: from ?? anvil.accounts[0],
    ...(to === undefined ? {} : { to }),
    data,
    value: quantity(value ?? 0n),
    gas: quantity(TRANSACTION_GAS),
    gasPrice: "0x0",
  };
}

/** The last transaction of each chain that waits for its receipt: of two at once the node may give both one nonce. */
const sending = new WeakMap<Anvil, Promise<unknown>>();

function sendMined(anvil: Anvil, call: UnsentTransaction): Promise<Receipt> {
  const before = sending.get(anvil) ?? Promise.resolve();
  const sent = before.then(() => sendAlone(anvil, call));
  sending.set(
    anvil,
    sent.catch(() => undefined),
  );
  return sent;
}

async function sendAlone(anvil: Anvil, call: UnsentTransaction): Promise<Receipt> {
  const transaction = rpcTransaction(anvil, call);
  const receipt = (await anvil.send("eth_sendTransactionSync", [transaction])) as Receipt;
  if (receipt.status === "0x1") return receipt;
  const cause = await anvil.send("eth_call", [transaction, "latest"]).catch((error: unknown) => error);
  throw new Error(`transaction ${receipt.transactionHash} reverted`, { cause });
}

/** The least that an ethers `Contract` needs to read: no network detection, no polling, nothing to close. */
function readingRunner(anvil: Anvil): ContractRunner {
  return {
    provider: null,
    call: async (transaction: TransactionRequest) => {
      const { to, data, from, blockTag } = transaction;
      const block = typeof blockTag === "number" || typeof blockTag === "bigint" ? quantity(blockTag) : blockTag;
      return (await anvil.send("eth_call", [{ to, data, ...(from ? { from } : {}) }, block ?? "latest"])) as string;
    },
  };
}

/** Whether the node refused a call because the contract reverted. */
export function isRevert(error: unknown): error is AnvilError {
  return error instanceof AnvilError && error.code === 3;
}
