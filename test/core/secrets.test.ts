/** Secrets in text from outside, in each form that a server makes of them by habit. */
import { describe, expect, test } from "bun:test";
import { redact } from "../../src/core/errors.ts";
import { createLogger } from "../../src/core/logger.ts";
import {
  keysInUrl,
  Secrets,
  secretsOfHeader,
  secretsOfLogin,
  secretsOfPassword,
  secretsOfUrl,
} from "../../src/core/secrets.ts";
import { ENCODINGS } from "../support/encodings.ts";

const PASSWORD = 'p/s"s+wörd&<1>';
const URL_TEXT = `https://op-user:${encodeURIComponent(PASSWORD)}@tenant77.rpc.example/v2/KEY-abcdef0123?token=t%2Fok%20en99`;
const SECRETS = ["op-user", PASSWORD, "KEY-abcdef0123", "t/ok en99", `op-user:${PASSWORD}`, "tenant77"];

describe("a secret in a text", () => {
  const secrets = new Secrets(secretsOfUrl(URL_TEXT));
  for (const [name, encode] of Object.entries(ENCODINGS)) {
    test(`is replaced in its form ${name}, and nothing else is`, () => {
      for (const secret of SECRETS) {
        const said = secrets.redact(`refused (${encode(secret)}) here`);
        expect([name, secret, said]).toEqual([name, secret, "refused ([redacted]) here"]);
      }
    });
  }

  test("is replaced in the header of a login, and in the whole of a request that is told as base64", () => {
    const login = Buffer.from(`op-user:${PASSWORD}`).toString("base64");
    const header = `Authorization: Basic ${login}`;
    expect(secrets.redact(header)).toBe("Authorization: Basic [redacted]");
    for (const before of ["", "a", "ab"]) {
      for (const form of ["base64", "base64url"] as const) {
        const said = secrets.redact(Buffer.from(`${before}${header} and more`).toString(form));
        expect(said).toContain("[redacted]");
        expect(Buffer.from(said.replaceAll("[redacted]", "AAAA"), "base64").toString()).not.toContain(
          login.slice(2, 12),
        );
      }
    }
  });

  test("leaves no part where the text is cut, or where two secrets overlap", () => {
    const key = "k3y-0123456789";
    const one = new Secrets([key]);
    for (let before = 0; before < 30; before++) {
      expect(one.redact(`${"x".repeat(before)}${key}`.repeat(3), 20)).not.toMatch(/k3|k$/);
    }
    expect(new Secrets(["abcdefgh", "efghijkl"]).redact("-abcdefghijkl-")).toBe("-[redacted]-");
  });

  test("is examined quickly in a text that is made to be slow", () => {
    const started = performance.now();
    for (const unit of ["\\", "%25", "%", "A", "&#0", "tenant7", "=", " "])
      secrets.redact(unit.repeat(4_000 / unit.length));
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  test("is no ordinary word, and no short part of a path", () => {
    const said = "eth_call refused: invalid api key for /v2 on mainnet, a basic plan (Bearer)";
    expect(secrets.redact(said)).toBe(said);
    expect(new Secrets(secretsOfHeader("Bearer tok-123456")).redact("Bearer tok-123456")).toBe("[redacted]");
    expect(new Secrets(secretsOfHeader("Bearer tok-123456")).redact("the Bearer is wrong")).toBe("the Bearer is wrong");
  });
});

test("a header with a login hides the user's password, too", () => {
  const value = `Basic ${Buffer.from("me:hunter22").toString("base64")}`;
  expect(new Secrets(secretsOfHeader(value)).redact("bad password hunter22")).toBe("bad password [redacted]");
});

test("the name of a database's user is no secret; that of an endpoint's is", () => {
  const url = "postgres://evm:s3cret-word@db.example/evm";
  expect(new Secrets(secretsOfPassword(url)).redact("evm/s3cret-word at db.example")).toBe(
    "evm/[redacted] at db.example",
  );
  expect(new Secrets(secretsOfLogin(url)).redact("evm/s3cret-word at db.example")).toBe(
    "[redacted]/[redacted] at db.example",
  );
  expect(keysInUrl("https://rpc.example/mainnet/0123456789abcdef01234567")).toEqual(
    expect.arrayContaining(["0123456789abcdef01234567"]),
  );
});

test("a URL is replaced up to its end although its password has punctuation", () => {
  expect(redact("at https://me:a'b)c>d@host.example/x now")).toBe("at https://[redacted] now");
});

test("the logger replaces the operator's secrets in every value of a line", () => {
  const lines: string[] = [];
  const logger = createLogger("debug", { write: (line) => void lines.push(line) }, new Secrets(["s3cret-word"]));
  const told = `bad ${Buffer.from("s3cret-word").toString("base64")}`;
  const err = new Error("s3cret-word", { cause: new Error(told) });
  logger.child({ chain: "eth" }).warn({ err, problems: [told], deep: { url2: "s3cret%2Dword" } }, told);
  expect(lines.join("")).not.toMatch(/s3cret|czNjcmV0/);
  expect(lines.join("")).toContain('"chain":"eth"');
});
