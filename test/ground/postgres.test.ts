/**
 * The PostgreSQL for tests: it starts on any machine that can install packages, creates fresh databases, and can stop
 * and restart on the same port with all committed data.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { type Postgres, sharedPostgres, startPostgres } from "../support/postgres.ts";
import { linkLibraries } from "../support/postgres-binaries.ts";

let postgres: Postgres;

beforeAll(async () => {
  postgres = await startPostgres({ settings: { max_connections: "20" } });
}, 300_000);
afterAll(async () => await postgres.stop());

test("databases are separate from each other", async () => {
  const [first, second] = [new SQL(await postgres.createDatabase()), new SQL(await postgres.createDatabase())];
  await first`CREATE TABLE facts (id int)`;
  const [{ tables }] = await second`SELECT count(*)::int AS tables FROM pg_tables WHERE tablename = 'facts'`;
  expect(tables).toBe(0);
  await Promise.all([first.close(), second.close()]);
});

test("committed data survives a crash, and the port stays the same", async () => {
  const url = await postgres.createDatabase();
  const before = new SQL(url);
  await before`CREATE TABLE facts (id int)`;
  await before`INSERT INTO facts VALUES (7)`;
  await postgres.stopServer({ abruptly: true });
  const refused = await before`SELECT 1`.catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Error);
  await before.close();

  await postgres.startServer();
  const after = new SQL(url);
  expect([...(await after`SELECT id FROM facts`)]).toEqual([{ id: 7 }]);
  await after.close();
});

test("a durable cluster flushes commits to the disk", async () => {
  const durable = await startPostgres({ durable: true });
  const sql = new SQL(durable.url("postgres"));
  const [{ fsync }] = await sql`SHOW fsync`;
  expect(fsync).toBe("on");
  await sql.close();
  await durable.stop();
  await durable.stop();
});

test("the shared cluster is started once", async () => {
  expect(await sharedPostgres()).toBe(await sharedPostgres());
});

test("missing links of the libraries are made, and only once", async () => {
  const home = await mkdtemp(join(tmpdir(), "links-"));
  const native = join(home, "native");
  await mkdir(join(native, "lib"), { recursive: true });
  await Bun.write(join(native, "lib", "libx.so.1.2"), "");
  const links = [{ source: "native/lib/libx.so.1.2", target: "native/lib/libx.so.1" }];
  await Bun.write(join(native, "pg-symlinks.json"), JSON.stringify(links));
  await linkLibraries(native);
  await linkLibraries(native);
  expect(await readlink(join(native, "lib", "libx.so.1"))).toBe("libx.so.1.2");
  await rm(home, { recursive: true });
});
