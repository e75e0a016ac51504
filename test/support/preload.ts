/**
 * Runs before any test when named as a preload of `bun test`: compiles the contracts, or finds them in the cache, so that
 * the compiler's seven seconds on a fresh checkout do not count against the first hook that needs a contract.
 */
import { compileContracts } from "../../scripts/local-chain/compile.ts";

await compileContracts();

// No timeout is set here: it would hold for the first file only.
