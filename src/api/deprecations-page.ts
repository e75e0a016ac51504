/** The page at `/swagger/deprecations`: each deprecated parameter, since when it is, and what to do instead. */
import { Elysia } from "elysia";
import { HTML, pageOf } from "./browser-page.ts";
import { HIDDEN } from "./openapi.ts";
import { DEPRECATIONS } from "./wire/answers.ts";
import type { Operation } from "./wire/operation.ts";

function entries(operations: readonly Operation<never>[]): string[] {
  return operations.flatMap(({ method, path, query }) =>
    Object.entries(query).flatMap(([name, { deprecated }]) => {
      if (deprecated === undefined) return [];
      const { since, instead } = deprecated;
      const where = `<code>${method} ${path.replace(/:(\w+)/g, "{$1}")}</code>`;
      return `<dt><code>${name}</code> of ${where}, since ${since.toISOString().slice(0, 10)}</dt>\n<dd>${instead}</dd>`;
    }),
  );
}

/** Nothing of a request is shown, so the text is made once. */
export const deprecationsPage = (operations: readonly Operation<never>[]) => {
  const text = pageOf({
    title: "EVM data service · deprecated parameters",
    head: "",
    body: `<h1>Deprecated parameters</h1>
<p>They work, and no end is set. An answer to a request with one of them has the header <code>Deprecation</code>.</p>
<dl>
${entries(operations).join("\n")}
</dl>`,
  });
  const headers = {
    ...{ "content-type": HTML, "cache-control": "no-cache" },
    "content-security-policy": "default-src 'none'; img-src data:; frame-ancestors 'none'",
  };
  return new Elysia(HIDDEN).get(DEPRECATIONS, () => new Response(text, { headers }));
};
