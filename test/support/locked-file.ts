/**
 * A separate process that holds a write lock on a SQLite file, as a backup tool or a shell can. It prints a line once it
 * has the lock, and keeps it until its standard input ends.
 */
import { Database } from "bun:sqlite";

const db = new Database(process.argv[2] ?? "", { readwrite: true });
db.run("PRAGMA busy_timeout = 10000");
db.run("BEGIN EXCLUSIVE");
console.log("locked");
for await (const _ of Bun.stdin.stream()) {
  // Nothing is expected.
}
db.run("ROLLBACK");
db.close();
