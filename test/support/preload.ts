/**
 * A preload of `bun test`, run before any test. Compiles the contracts or finds them in the cache. On a fresh checkout
 * the compiler takes more than ten seconds, which must not count against the first hook that needs a contract. Also gives
 * every test file its default timeout.
 */
import { plugin } from "bun";
import { compileContracts } from "../../scripts/local-chain/compile.ts";

await compileContracts();

/** Real components on shared machines need more than the runner's default of 5 s. The tests' own waits are shorter. */
const TIMEOUT_MS = 300_000;

// The runner has no setting for it, and a timeout set here would apply to the first file only. So each file sets it.
plugin({
  name: "timeouts",
  setup(build) {
    build.onLoad({ filter: /\.test\.ts$/ }, async ({ path }) => {
      const first = `import { setDefaultTimeout as limitEach } from "bun:test"; limitEach(${TIMEOUT_MS});`;
      return { contents: `${first} ${await Bun.file(path).text()}`, loader: "ts" };
    });
  },
});
