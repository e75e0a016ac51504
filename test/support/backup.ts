/** Backups of a database on a running PostgreSQL, and their restore under the connections of running services. */
import { SQL } from "bun";

/** Copies the database of `url`. Returns the function that puts the copy in its place. Both end all connections to it. */
export async function backUp(url: string): Promise<() => Promise<void>> {
  const name = new URL(url).pathname.slice(1);
  const admin = new URL(url);
  admin.pathname = "/postgres";
  const copy = `${name}_backup`;
  const alone = async (work: (sql: SQL) => Promise<unknown>): Promise<void> => {
    const sql = new SQL(admin.href, { max: 1 });
    await sql.unsafe(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`);
    await sql`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = ${name}`;
    await work(sql);
    await sql.unsafe(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`);
    await sql.close();
  };
  await alone((sql) => sql.unsafe(`CREATE DATABASE ${copy} TEMPLATE ${name}`));
  return () =>
    alone(async (sql) => {
      await sql.unsafe(`DROP DATABASE ${name}`);
      await sql.unsafe(`ALTER DATABASE ${copy} RENAME TO ${name}`);
    });
}
