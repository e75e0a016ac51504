/** Verifies the proof of a file in a process that has loaded nothing yet. Prints the ms of loading and of verifying. */
const [, , file = ""] = process.argv;
const text = await Bun.file(file).text();
const started = performance.now();
const { verifyProof } = await import("../../../src/proof/verifier/verify.ts");
const loaded = performance.now();
await verifyProof(text);
process.stdout.write(`${JSON.stringify([loaded - started, performance.now() - loaded])}\n`);
