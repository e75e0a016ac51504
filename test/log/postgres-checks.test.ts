/**
 * Databases that can't hold a log: a start, and `doctor`, refuse them with the way out, and neither leaves anything in
 * them. Against a real PostgreSQL.
 */
import { beforeAll, expect, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../src/core/clock.ts";
import { messageOf } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { checkLog } from "../../src/log/start-check.ts";
import { runCli } from "../support/cli.ts";
import { type Postgres, sharedPostgres } from "../support/postgres.ts";

let cluster: Postgres;
beforeAll(async () => {
  cluster = await sharedPostgres();
});

async function ask<T>(url: string, ...statements: string[]): Promise<T[]> {
  const sql = new SQL(url, { max: 1 });
  let rows: T[] = [];
  try {
    for (const statement of statements) rows = await sql.unsafe<T[]>(statement);
    return rows;
  } finally {
    await sql.close();
  }
}

const tablesOf = async (url: string): Promise<string[]> =>
  (await ask<{ name: string }>(url, "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'")).map(
    ({ name }) => name,
  );

/** The words of a refused start. */
async function refusalOf(url: string): Promise<string> {
  try {
    await (await openLog(url, systemClock, silentLogger)).close();
    return "";
  } catch (error) {
    return messageOf(error);
  }
}

/** The URL of a database for a user of its own. */
async function as(user: string, url: string, ...grants: string[]): Promise<string> {
  await ask(url, `DROP ROLE IF EXISTS ${user}`, `CREATE ROLE ${user} LOGIN PASSWORD 'password'`, ...grants);
  const own = new URL(url);
  own.username = user;
  return own.href;
}

interface Case {
  readonly name: string;
  /** Returns the URL that is refused. */
  readonly make: () => Promise<string>;
  readonly says: RegExp;
}

const withEncoding = (encoding: string) => async () => {
  const name = `encoded_${encoding.toLowerCase()}`;
  await ask(cluster.url("postgres"), `CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0`);
  return cluster.url(name);
};

const CASES: readonly Case[] = [
  ...["SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP"].map((encoding) => ({
    name: `encoding ${encoding}`,
    make: withEncoding(encoding),
    says: new RegExp(`has the encoding ${encoding} .* ENCODING 'UTF8' TEMPLATE template0`),
  })),
  {
    name: "a user who may create nothing",
    make: async () => as("reader", await cluster.createDatabase()),
    says: /reader may not create tables in the schema public; grant it: GRANT USAGE, CREATE ON SCHEMA public TO reader/,
  },
  {
    name: "a user who may not write to the tables of another",
    make: async () => {
      const url = await cluster.createDatabase();
      await (await openLog(url, systemClock, silentLogger)).close();
      return as(
        "guest",
        url,
        "GRANT USAGE, CREATE ON SCHEMA public TO guest",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest",
      );
    },
    says: /guest lacks rights: .*(?:migrations|events) \(INSERT\).*GRANT ALL ON ALL TABLES IN SCHEMA public TO guest/,
  },
  {
    name: "a user who may not use the sequences",
    make: async () => {
      const url = await cluster.createDatabase();
      await (await openLog(url, systemClock, silentLogger)).close();
      return as(
        "counter",
        url,
        "GRANT USAGE, CREATE ON SCHEMA public TO counter",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO counter",
      );
    },
    says: /counter lacks rights: streams_seq \(USAGE\)/,
  },
  {
    name: "a database that is read-only",
    make: async () => {
      const url = await cluster.createDatabase();
      const name = new URL(url).pathname.slice(1);
      await ask(url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      return url;
    },
    says: /read-only: it is a standby, or default_transaction_read_only is on; use the primary/,
  },
  {
    name: "a search path without a schema",
    make: async () => {
      const url = await cluster.createDatabase();
      await ask(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = nowhere`);
      return url;
    },
    says: /no schema of the search_path of postgres exists/,
  },
];

test.each(CASES.map((one) => [one.name, one] as const))("refuses %s", async (_name, { make, says }) => {
  const url = await make();
  const before = await tablesOf(url);
  expect(await refusalOf(url)).toMatch(says);
  const doctor = await runCli(["doctor"], {
    ...{ EVENT_LOG_URL: url, RPC_URLS_ONLY: "true", RPC_URL_ETH: "http://127.0.0.1:9" },
  });
  expect([doctor.code, doctor.out]).toEqual([1, expect.stringMatching(new RegExp(`✗ event log: .*${says.source}`))]);
  expect(await tablesOf(url)).toEqual(before);
});

test("a check keeps nothing in a database that a start would use, and says whether a start changes it", async () => {
  const url = await cluster.createDatabase();
  const options = { clock: systemClock, logger: silentLogger };
  expect(await checkLog(url, options)).toEqual({ isChanged: true });
  expect(await tablesOf(url)).toEqual([]);
  const doctor = await runCli(["doctor"], {
    ...{ EVENT_LOG_URL: url, RPC_URLS_ONLY: "true", RPC_URL_ETH: "http://127.0.0.1:9" },
  });
  expect(doctor.out).toContain("✓ event log: postgres, made or brought up to date by the first start");
  expect(await tablesOf(url)).toEqual([]);
  await (await openLog(url, systemClock, silentLogger)).close();
  expect(await checkLog(url, options)).toEqual({ isChanged: false });
});

test("a name in another script is stored by a database that is not refused", async () => {
  const log = await openLog(await cluster.createDatabase(), systemClock, silentLogger);
  expect((await log.setting("name", () => "猫 🐈 ñ")).value).toBe("猫 🐈 ñ");
  await log.close();
});
