import { expect, test } from "bun:test";
import { programOf } from "../../src/core/program.ts";

const started = {
  ...{ execPath: "/usr/bin/bun", main: "/srv/app/src/main.ts", folder: "/srv/app", isCompiled: false },
  ...{ script: undefined, byNpx: undefined },
};

test("the program names itself as it was started", () => {
  expect(programOf(started)).toBe("bun src/main.ts");
  expect(programOf({ ...started, script: "start" })).toBe("bun run cli");
  expect(programOf({ ...started, script: "start", byNpx: "1.4.4" })).toBe("npx --yes bun@1.4.4 run cli");
  expect(programOf({ ...started, byNpx: "1.4.4" })).toBe("npx --yes bun@1.4.4 src/main.ts");
  expect(programOf({ ...started, isCompiled: true, execPath: "/opt/secret/evm-data-service" })).toBe(
    "evm-data-service",
  );
  expect(programOf({ ...started, main: "/app/src/main.ts", folder: "/app/src/.." })).toBe("bun src/main.ts");
});
