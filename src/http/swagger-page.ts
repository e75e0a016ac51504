/**
 * The page at `/swagger`. Script and style come from the `swagger-ui-dist` package and are served from this process, so
 * the page works without internet access.
 */
import { Elysia } from "elysia";

const PAGE = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>EVM data service · API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/swagger/swagger-ui-bundle.js"></script>
<script type="module" src="/swagger/start.js"></script>
</body>
</html>
`;

/**
 * Starts the page. A separate file, so that the page needs no inline script. Swagger UI fills in and sends the example
 * of every parameter, such as an expired cursor, so this script moves the examples of optional parameters into their
 * descriptions.
 */
const START = `const api = await (await fetch("/swagger/json")).json();
for (const operation of Object.values(api.paths).flatMap((path) => Object.values(path))) {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.required) continue;
    parameter.description += ". Example: " + parameter.example;
    delete parameter.example;
  }
}
window.ui = SwaggerUIBundle({
  spec: api,
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: true,
});
`;

const HTML = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-cache",
  "content-security-policy":
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
};
const [CSS, SCRIPT] = ["text/css; charset=utf-8", "text/javascript; charset=utf-8"];
/** The packaged files change only with the program's version. */
const ONE_DAY = "public, max-age=86400";
/** Keeps these routes out of the OpenAPI document. */
const HIDDEN = { detail: { hide: true } };

function asset(name: string, type: string): () => Response {
  const file = Bun.file(new URL(import.meta.resolve(`swagger-ui-dist/${name}`)));
  return () => new Response(file, { headers: { "content-type": type, "cache-control": ONE_DAY } });
}

export const swaggerPage = () =>
  new Elysia()
    .get("/swagger", () => new Response(PAGE, { headers: HTML }), HIDDEN)
    .get("/swagger/swagger-ui.css", asset("swagger-ui.css", CSS), HIDDEN)
    .get("/swagger/swagger-ui-bundle.js", asset("swagger-ui-bundle.js", SCRIPT), HIDDEN)
    .get(
      "/swagger/start.js",
      () => new Response(START, { headers: { "content-type": SCRIPT, "cache-control": ONE_DAY } }),
      HIDDEN,
    );
