/**
 * Every recorded error message of a provider is classified by what the caller should do. Unknown range refusals are
 * halved.
 */
import { describe, expect, test } from "bun:test";
import { classifyHttpStatus, classifyRpcError } from "../../src/rpc/rpc-errors.ts";
import corpus from "../fixtures/rpc-errors.json";

interface Case {
  provider: string;
  code: number | null;
  message?: string;
  data?: unknown;
  expect: string;
  size?: number;
  range?: (string | number)[];
}

const worded = (corpus.errors as Case[]).filter((entry) => entry.message !== undefined);

describe("the recorded refusals of providers", () => {
  for (const entry of worded) {
    const method = entry.expect === "fatal-for-this-block" ? "eth_call" : "eth_getLogs";
    test(`${entry.provider}: ${entry.message}`, () => {
      const { code, message, data } = entry;
      const error = classifyRpcError({ code, message, data }, method, {});
      switch (entry.expect) {
        case "hint":
          expect(error.kind).toBe("range");
          if (entry.range !== undefined) {
            expect(error.hint).toEqual({ range: [Number(entry.range[0]), Number(entry.range[1])] });
          } else if (entry.provider !== "ankr") {
            // ankr's message contains no number. The fixture has it from another source.
            expect(error.hint).toEqual({ size: entry.size as number });
          }
          break;
        case "split":
          expect(error.kind).toBe("range");
          break;
        case "backoff":
          expect(["rate", "transient"]).toContain(error.kind);
          expect(error.retryable).toBe(true);
          break;
        case "split-or-backoff":
          expect(["range", "transient"]).toContain(error.kind);
          break;
        case "fatal-for-this-block":
          expect(error.kind).toBe("state_unavailable");
          expect(error.retryable).toBe(false);
          break;
        default:
          throw new Error(`the fixture expects an unknown class: ${entry.expect}`);
      }
    });
  }

  test("treats an unknown refusal as one of range size", () => {
    expect(classifyRpcError({ code: -32099, message: "the moon is in the wrong house" }, "eth_getLogs", {}).kind).toBe(
      "range",
    );
  });
});

describe("other refusals", () => {
  const cases: [string, string, { code: number; message: string; data?: unknown }][] = [
    ["revert", "eth_call", { code: 3, message: "execution reverted: no", data: "0x08c379a0" }],
    ["revert", "eth_call", { code: -32000, message: "out of gas" }],
    ["state_unavailable", "eth_call", { code: -32000, message: "header not found" }],
    ["state_unavailable", "eth_getCode", { code: -32000, message: "state is not available: pruned" }],
    ["state_unavailable", "eth_call", { code: -32002, message: "No state available for block 7 (0xab…12)" }],
    ["state_unavailable", "eth_getCode", { code: -32002, message: "No state available for block 7 (0xab…12)" }],
    ["state_unavailable", "eth_call", { code: -32603, message: "no state found for block number 49107280" }],
    ["state_unavailable", "eth_call", { code: -32000, message: "World state unavailable" }],
    ["state_unavailable", "eth_call", { code: -32000, message: "required historical state unavailable (reexec=128)" }],
    ["state_unavailable", "eth_call", { code: -32000, message: "state histories haven't been fully indexed yet" }],
    ["state_unavailable", "eth_call", { code: -32000, message: "height 7 is not available, lowest height is 900" }],
    [
      "state_unavailable",
      "eth_call",
      { code: -32000, message: "failed to load state at height 2; version does not exist" },
    ],
    ["state_unavailable", "eth_call", { code: -32603, message: "State already discarded for BlockId::Hash(0x34)" }],
    [
      "state_unavailable",
      "eth_call",
      { code: -32601, message: "public endpoint only serves recent blocks (last 1024)" },
    ],
    [
      "state_unavailable",
      "eth_call",
      { code: -32602, message: "BlockOutOfRangeError: block height is 5101 but requested was 567" },
    ],
    [
      "transient",
      "eth_getLogs",
      { code: -32602, message: "BlockOutOfRangeError: block height is 51 but requested was 567" },
    ],
    ["unsupported", "eth_getBlockByNumber", { code: -32601, message: "method not found" }],
    ["unsupported", "eth_getBlockByNumber", { code: -39001, message: "finalized block not found" }],
    ["rate", "eth_call", { code: 429, message: "slow down" }],
    ["transient", "eth_getBlockByNumber", { code: -32603, message: "internal error" }],
  ];
  for (const [kind, method, answer] of cases) {
    test(`${method}: ${answer.message} → ${kind}`, () => {
      expect(classifyRpcError(answer, method, {}).kind).toBe(kind as never);
    });
  }

  test("classifies HTTP statuses: 429 with its wait, 5xx as transient, a gateway timeout as late", () => {
    expect(classifyHttpStatus(429, "7", {})).toMatchObject({ kind: "rate", retryAfterMs: 7_000 });
    expect(classifyHttpStatus(503, null, {}).kind).toBe("transient");
    expect(classifyHttpStatus(504, null, {})).toMatchObject({ kind: "late", retryable: true });
    expect(classifyHttpStatus(413, null, {}).kind).toBe("range");
  });

  test("reads only the beginning of a refusal of several megabytes, but all of a contract's revert data", () => {
    const hint = "eth_getLogs is limited to a 1000 range";
    const refused = (data: string) => classifyRpcError({ code: -32000, message: "no", data }, "eth_getLogs", {});
    expect(refused(hint).hint).toEqual({ size: 1_000 });
    expect(refused(`${"word ".repeat(1_000)}${hint}`).hint).toBeUndefined();
    const data = `0x${"ab".repeat(10_000)}`;
    const reverted = (code: number) => classifyRpcError({ code, message: "execution reverted", data }, "eth_call", {});
    expect([reverted(3).data, reverted(-32000).data]).toEqual([data, data]);
  });

  test("turns a message that is not text into text", () => {
    const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    for (const message of [{ toString: null }, ["a"], 7, null, deep]) {
      expect(classifyRpcError({ code: -32000, message }, "eth_getLogs", {}).kind).toBe("range");
    }
  });

  test("reads a text in place of a refusal as its message", () => {
    expect(classifyRpcError("rate limit exceeded", "eth_getLogs", {})).toMatchObject({
      kind: "rate",
      message: "eth_getLogs refused: rate limit exceeded",
    });
    expect(classifyRpcError("eth_getLogs is limited to a 1000 range", "eth_getLogs", {}).hint).toEqual({ size: 1_000 });
    expect(classifyRpcError("method not found", "eth_getBlockReceipts", {}).kind).toBe("unsupported");
    expect(classifyRpcError("missing trie node", "eth_call", {}).kind).toBe("state_unavailable");
  });

  test("keeps URLs out of messages", () => {
    const error = classifyRpcError({ code: 1, message: "see https://rpc.example/v2/SECRETKEY for help" }, "eth_call", {
      endpoint: "eth#1",
    });
    expect(`${error.message} ${JSON.stringify(error.meta)}`).not.toContain("SECRETKEY");
    expect(error.message).toContain("https://[redacted]");
  });
});

describe("a contract that reverts with the words of a provider's refusal", () => {
  const words = ["rate limit", "too many requests", "missing trie node", "archive node needed", "header not found"];
  for (const reason of words) {
    test(reason, () => {
      for (const code of [3, -32_000]) {
        const error = { code, message: `execution reverted: ${reason}`, data: "0x08c379a0" };
        const { kind, data } = classifyRpcError(error, "eth_call", {});
        expect([code, kind, data]).toEqual([code, "revert", "0x08c379a0"]);
      }
    });
  }
});
