/**
 * The page of the API at `/swagger`. Its script and style come from the `swagger-ui-dist` package, so the page works without
 * internet access.
 */
import { Elysia } from "elysia";
import { embeddedPath, IS_COMPILED } from "../core/embedded-files.ts";
import { CSS, HTML, pageOf, SCRIPT } from "./browser-page.ts";
import { HIDDEN } from "./openapi.ts";

const swaggerText = (prefix: string) =>
  pageOf({
    title: "EVM data service · API",
    head: `<link rel="stylesheet" href="${prefix}/swagger/swagger-ui.css">
<link rel="stylesheet" href="${prefix}/swagger/dark.css">`,
    body: `<div id="swagger-ui"></div>
<script src="${prefix}/swagger/swagger-ui-bundle.js"></script>
<script type="module" src="${prefix}/swagger/start.js"></script>`,
  });

/**
 * Starts the page. A separate file, so that the page needs no inline script. Swagger UI fills in and sends the example
 * of every parameter, such as an expired cursor, so this script moves the examples of optional parameters into their
 * descriptions. The key is kept in `sessionStorage`: Swagger UI's own `persistAuthorization` keeps it in `localStorage`
 * for ever, as earlier releases did.
 */
const startScript = (prefix: string) => `const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();
const api = await (await fetch(${JSON.stringify(`${prefix}/swagger/json`)})).json();
for (const operation of Object.values(api.paths).flatMap((path) => Object.values(path))) {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.required) continue;
    parameter.description += ". Example: " + parameter.example;
    delete parameter.example;
  }
}
const NAME = ${JSON.stringify(`evm-data-swagger-key:${prefix}`)};
const SCHEME = "ApiKeyAuth";
localStorage.removeItem("authorized");
const keepsKey = {
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (authorize) => (given) => {
          if (given[SCHEME]?.value) sessionStorage.setItem(NAME, given[SCHEME].value);
          return authorize(given);
        },
        logout: (logout) => (names) => {
          sessionStorage.removeItem(NAME);
          return logout(names);
        },
      },
    },
  },
};
window.ui = SwaggerUIBundle({
  spec: api,
  dom_id: "#swagger-ui",
  deepLinking: true,
  plugins: [keepsKey],
  onComplete: () => {
    const key = sessionStorage.getItem(NAME);
    if (key !== null) window.ui.preauthorizeApiKey(SCHEME, key);
  },
});
`;

/** Texts that Swagger UI's own dark mode leaves without contrast to their ground. */
const DARK = `html.dark-mode .swagger-ui .response-col_description :is(td, th) {
  color: inherit;
}
html.dark-mode .swagger-ui .parameter__deprecated {
  color: #ff8080;
}
html.dark-mode .swagger-ui .opblock .highlight-code pre.microlight {
  background: #121416 !important;
}
`;

const SWAGGER_HEADERS = {
  "content-type": HTML,
  "cache-control": "no-cache",
  "content-security-policy":
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
};
/** The packaged files change only with the program's version. */
const ONE_DAY = "public, max-age=86400";

/** The path of a file of `swagger-ui-dist`. `scripts/compile.ts` embeds them. */
export const swaggerAsset = (name: string): string => Bun.fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`));

/** The files of `swagger-ui-dist` that the page loads. */
export const SWAGGER_ASSETS = ["swagger-ui.css", "swagger-ui-bundle.js"] as const;

function asset(name: (typeof SWAGGER_ASSETS)[number], type: string): () => Response {
  const file = Bun.file(IS_COMPILED ? embeddedPath(name) : swaggerAsset(name));
  return () => new Response(file, { headers: { "content-type": type, "cache-control": ONE_DAY } });
}

const own = (text: string, type: string) => () =>
  new Response(text, { headers: { "content-type": type, "cache-control": ONE_DAY } });

/** @param prefix path of the public URL */
export const swaggerPage = (prefix: string) =>
  new Elysia(HIDDEN)
    .get("/swagger", () => new Response(swaggerText(prefix), { headers: SWAGGER_HEADERS }))
    .get("/swagger/swagger-ui.css", asset("swagger-ui.css", CSS))
    .get("/swagger/swagger-ui-bundle.js", asset("swagger-ui-bundle.js", SCRIPT))
    .get("/swagger/dark.css", own(DARK, CSS))
    .get("/swagger/start.js", own(startScript(prefix), SCRIPT));
