/**
 * Programs from Debian's packages, for tests against real parts. Uses an installed one, or unpacks the package into a
 * folder of its own: nothing is installed, and no daemon starts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const unpacked = new Map<string, string>();

/**
 * Path of a program.
 * @param path of the program in the package
 * @throws Error that names the package, if this machine has neither the program nor Debian's packages
 */
export function debianProgram(name: string, path: string): string {
  const installed = Bun.which(basename(path), { PATH: `${process.env["PATH"]}:/usr/sbin:/usr/bin` });
  if (installed !== null) return installed;
  let folder = unpacked.get(name);
  if (folder === undefined) {
    folder = mkdtempSync(join(tmpdir(), "debian-"));
    const made = folder;
    process.on("exit", () => rmSync(made, { recursive: true, force: true }));
    const steps = `cd "${folder}" && chmod 755 . && { apt-get download -q ${name} || { apt-get update -qq && apt-get download -q ${name}; }; } && dpkg -x ./*.deb .`;
    const { exitCode, stderr } = Bun.spawnSync(["sh", "-c", steps], { stdout: "ignore", stderr: "pipe" });
    if (exitCode !== 0) throw new Error(`the test needs Debian's package ${name}: ${stderr.toString().slice(-500)}`);
    unpacked.set(name, folder);
  }
  return join(folder, path);
}
