/**
 * Runs before any test when named as a preload of `bun test`: compiles the contracts, or finds them in the cache, so that
 * the compiler's seven seconds on a fresh checkout do not count against the first hook that needs a contract.
 */
import { setDefaultTimeout } from "bun:test";
import { compileContracts } from "../../scripts/local-chain/compile.ts";

await compileContracts();

// A condition that never comes true says so after 15 s by itself; the runner's own limit of 5 s would kill the chain first.
setDefaultTimeout(30_000);
