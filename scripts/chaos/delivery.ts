/**
 * Checks what one roaming client received about one collection, over all its connections. Pure: messages in, problems
 * out. The rules:
 * - A connection carries `indexed` at most once.
 * - The same record does not arrive twice, unless `reorged` or a status with `gap` came in between.
 * - No transfer is missing. The client's view begins at the block of the first `status`, or of the last one with `gap`.
 *   Each `transfers` message covers the blocks after the previous one up to its own, so each transfer of the chain must
 *   be named by the first message that reaches its block. `reorged` takes back the blocks above the ancestor.
 */
import type { Transfer } from "./chain.ts";

export interface PushMessage {
  readonly type: string;
  readonly version?: number;
  readonly resume?: string;
  readonly block?: number | null;
  readonly tokenIds?: readonly string[];
  readonly gap?: boolean;
  readonly code?: string;
}

/** A `transfers` message: the ids that moved after the previous message, up to and including `block`. */
interface Told {
  block: number;
  readonly ids: ReadonlySet<string>;
}

export class Delivery {
  messages = 0;
  gaps = 0;
  doubled = 0;
  #since: string | number | undefined;
  #hasResume = false;
  /** The view begins after this block. */
  #start: number | undefined;
  #told: Told[] = [];
  #seen = new Set<string>();
  #isIndexed = false;

  /** What a new connection subscribes with. */
  get since(): string | number | undefined {
    return this.#since;
  }

  /** Block of the last transfers. */
  get block(): number {
    return this.#told.at(-1)?.block ?? 0;
  }

  /** Call it for each new connection, before its messages. */
  connected(): void {
    this.#isIndexed = false;
  }

  /** Takes the next message. Returns a problem, if it breaks a rule. */
  take(message: PushMessage): string | undefined {
    this.messages++;
    const { type, gap, block } = message;
    if (type === "error" || type === "pong" || type === "unsubscribed") return undefined;
    if (type === "status") {
      if (gap === true) this.gaps++;
      if (gap === true || this.#start === undefined) {
        this.#begin(block ?? 0);
        this.#since = message.resume ?? message.version;
      }
      return undefined;
    }
    this.#remember(message);
    if (type === "indexed") {
      const isRepeated = this.#isIndexed;
      this.#isIndexed = true;
      return isRepeated ? "`indexed` came twice on one connection" : undefined;
    }
    if (type === "reorged") this.#goBack(block ?? 0);
    return type === "transfers" ? this.#takeTransfers(message) : undefined;
  }

  #begin(block: number): void {
    this.#start = block;
    this.#told = [];
    this.#seen = new Set();
  }

  /** Some messages repeat the last version without a `resume`. They don't replace a `resume`. */
  #remember({ resume, version }: PushMessage): void {
    if (resume !== undefined) this.#hasResume = true;
    if (resume === undefined && this.#hasResume) return;
    this.#since = resume ?? version ?? this.#since;
  }

  #goBack(ancestor: number): void {
    this.#seen = new Set();
    if (this.#start !== undefined) this.#start = Math.min(this.#start, ancestor);
    for (const told of this.#told) told.block = Math.min(told.block, ancestor);
  }

  #takeTransfers({ version, resume, block, tokenIds = [] }: PushMessage): string | undefined {
    const record = resume ?? String(version);
    if (this.#seen.has(record)) {
      this.doubled++;
      return `transfers of version ${version} at block ${block} came twice`;
    }
    this.#seen.add(record);
    const before = this.block;
    this.#told.push({ block: block ?? 0, ids: new Set(tokenIds) });
    if ((block ?? 0) >= before) return undefined;
    return `transfers of version ${version} at block ${block} came after those of block ${before}, without \`reorged\``;
  }

  /** The blocks that the view covers: after the first and up to the second. Undefined before any transfers. */
  get covered(): { after: number; upTo: number } | undefined {
    if (this.#start === undefined || this.block <= this.#start) return undefined;
    return { after: this.#start, upTo: this.block };
  }

  /** Returns those of the chain's transfers in the covered blocks that no message told. */
  missing(transfers: readonly Transfer[]): Transfer[] {
    const { covered } = this;
    if (covered === undefined) return [];
    const isCovered = ({ block }: Transfer) => block > covered.after && block <= covered.upTo;
    return transfers.filter((transfer) => {
      if (!isCovered(transfer)) return false;
      const told = this.#told.find(({ block }) => block >= transfer.block);
      return told?.ids.has(transfer.tokenId) !== true;
    });
  }
}
