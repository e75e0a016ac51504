/**
 * A preload of `bun test`, run before any test. Compiles the contracts or finds them in the cache. On a fresh checkout
 * the compiler takes more than ten seconds, which must not count against the first hook that needs a contract.
 */
import { compileContracts } from "../../scripts/local-chain/compile.ts";

await compileContracts();

// A timeout set here would apply to the first file only, so none is set.
