/**
 * Asserts what a PostgreSQL server must be able to do for the log: its encoding, and the rights of the user. Each start
 * checks it in the transaction of the migration. Otherwise the first name in another script, or the first append, would
 * fail weeks later.
 */
import { AppError } from "../core/errors.ts";

type Ask = <T>(text: string) => Promise<T[]>;

/** Rights on each table that the log's statements need. */
const TABLE_RIGHTS = {
  migrations: ["SELECT", "INSERT"],
  streams: ["SELECT", "INSERT", "UPDATE"],
  events: ["SELECT", "INSERT"],
  blobs: ["SELECT", "INSERT"],
  leases: ["SELECT", "INSERT", "UPDATE", "DELETE"],
  settings: ["SELECT", "INSERT"],
} as const;
const SEQUENCES = ["streams_seq", "streams_id_seq"] as const;

const refusal = (text: string) => new AppError(`EVENT_LOG_URL: ${text}`, { code: "configuration" });

interface Facts {
  readonly encoding: string;
  readonly readOnly: string;
  readonly user: string;
  readonly database: string;
  readonly schema: string | null;
  readonly mayCreate: boolean | null;
}

/** Asserts that the database can hold the log. @throws AppError that names the way out */
export async function assertUsable(ask: Ask): Promise<void> {
  const [facts] = await ask<Facts>(
    `SELECT current_setting('server_encoding') AS encoding, current_setting('transaction_read_only') AS "readOnly",
            current_user AS "user", current_database() AS database, current_schema() AS schema,
            has_schema_privilege(current_schema(), 'CREATE') AS "mayCreate"`,
  );
  if (facts === undefined) return;
  const { encoding, readOnly, user, database, schema, mayCreate } = facts;
  if (encoding !== "UTF8") {
    throw refusal(
      `the database ${database} has the encoding ${encoding} and can't hold all names of tokens; make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  }
  if (readOnly === "on") {
    const text =
      "the database is read-only: it is a standby, or default_transaction_read_only is on; use the primary and a user who may write";
    // A failover may make it the primary.
    throw new AppError(`EVENT_LOG_URL: ${text}`, { code: "log_unavailable", retryable: true });
  }
  if (schema === null) {
    throw refusal(`no schema of the search_path of ${user} exists; make one: CREATE SCHEMA … AUTHORIZATION ${user}`);
  }
  if (mayCreate !== true) {
    throw refusal(
      `the user ${user} may not create tables in the schema ${schema}; grant it: GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${user}`,
    );
  }
}

/** Asserts that a table of migrations can be read, if another user has made it. @throws AppError as below */
export const assertReadable = (ask: Ask): Promise<void> =>
  assertTables(ask, Object.entries(TABLE_RIGHTS).slice(0, 1), []);

/** Asserts that the tables can be read and written: another user may have made them. @throws AppError with the way out */
export const assertRights = (ask: Ask): Promise<void> => assertTables(ask, Object.entries(TABLE_RIGHTS), SEQUENCES);

async function assertTables(
  ask: Ask,
  tables: readonly (readonly [string, readonly string[]])[],
  sequences: readonly string[],
): Promise<void> {
  const wanted = tables.flatMap(([table, rights]) => rights.map((right) => `('${table}', '${right}')`));
  const missing = await ask<{ what: string; user: string; schema: string }>(
    `SELECT name || ' (' || privilege || ')' AS what, current_user AS "user", current_schema() AS schema
     FROM (VALUES ${wanted.join(", ")}) AS wanted (name, privilege)
     WHERE to_regclass(name) IS NOT NULL AND NOT has_table_privilege(name, privilege)`,
  );
  for (const name of sequences) {
    missing.push(
      ...(await ask<(typeof missing)[number]>(
        `SELECT '${name} (USAGE)' AS what, current_user AS "user", current_schema() AS schema
         WHERE to_regclass('${name}') IS NOT NULL AND NOT has_sequence_privilege('${name}', 'USAGE')`,
      )),
    );
  }
  const [first] = missing;
  if (first === undefined) return;
  const { user, schema } = first;
  throw refusal(
    `the user ${user} lacks rights: ${missing.map(({ what }) => what).join(", ")}; grant them: GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${user}; GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${user}`,
  );
}
