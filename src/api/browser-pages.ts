/**
 * The pages for browsers. The console at `/`: its script and style are made by `Bun.build` of `src/console` when a browser
 * first asks for them, so a start does not wait for that, and a service that nobody looks at never does it. The API at
 * `/swagger`: script and style come from the `swagger-ui-dist` package, so the page works without internet access.
 */
import { gzipSync } from "node:zlib";
import { Elysia } from "elysia";
import { AppError, messageOf } from "../core/errors.ts";
import { embeddedPath, IS_COMPILED } from "../core/files.ts";
import { HIDDEN } from "./openapi.ts";

/** The mark of the service: lines of a log. The console also shows its picture in the page. */
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0b57c4"/><path d="M4 5h8M4 8h8M4 11h4" stroke="#fff" stroke-width="1.6" stroke-linecap="round"/><circle cx="11.4" cy="11" r="1.5" fill="#9cc4ff"/></svg>`;

interface PageParts {
  readonly title: string;
  /** Further elements of the head. */
  readonly head: string;
  readonly body: string;
}

const pageOf = ({ title, head, body }: PageParts) => `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(SVG)}">
${head}
</head>
<body>
${body}
</body>
</html>
`;

const HTML = "text/html; charset=utf-8";
const CSS = "text/css; charset=utf-8";
const SCRIPT = "text/javascript; charset=utf-8";

// ── The console ──

const ENTRY = new URL("../console/main.tsx", import.meta.url);

/** Everything comes from this service. Styles that the script sets on elements need no exception. */
const POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join("; ");

const CONSOLE_HEADERS = {
  "content-type": HTML,
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-cache",
};
const TYPES = { "app.js": SCRIPT, "app.css": CSS } as const;

const consoleText = (prefix: string, explorers: Readonly<Record<string, string>>) =>
  pageOf({
    title: "EVM data service",
    head: `<link rel="stylesheet" href="${prefix}/console/app.css">
<script type="module" src="${prefix}/console/app.js"></script>`,
    body: `<div id="console" data-explorers="${Bun.escapeHTML(JSON.stringify(explorers))}"><noscript>This page needs JavaScript. The API doesn't: see <a href="${prefix}/swagger">/swagger</a>.</noscript></div>`,
  });

interface Asset {
  readonly packed: Buffer;
  readonly plain: Buffer;
  readonly etag: string;
}
type Assets = Readonly<Record<keyof typeof TYPES, Asset>>;

/** Reads or makes the two files. @throws AppError if the sources can't be bundled */
async function loadAssets(): Promise<Assets> {
  const embedded = (name: keyof typeof TYPES) => Bun.file(embeddedPath(name)).text();
  const texts = IS_COMPILED
    ? { "app.js": await embedded("app.js"), "app.css": await embedded("app.css") }
    : await bundleConsole();
  return { "app.js": assetOf(texts["app.js"]), "app.css": assetOf(texts["app.css"]) };
}

/**
 * Bundles the console's sources into its script and its style. `scripts/compile.ts` embeds them.
 * @throws AppError if the sources can't be bundled
 */
export async function bundleConsole(): Promise<Readonly<Record<keyof typeof TYPES, string>>> {
  const built = await Bun.build({
    entrypoints: [Bun.fileURLToPath(ENTRY)],
    target: "browser",
    format: "esm",
    minify: true,
  }).catch((error: unknown) => {
    throw new AppError(`the console can't be bundled: ${messageOf(error)}`, { code: "console_broken", cause: error });
  });
  const textOf = async (type: string) => built.outputs.find(({ path }) => path.endsWith(type))?.text() ?? "";
  return { "app.js": await textOf(".js"), "app.css": await textOf(".css") };
}

function assetOf(text: string): Asset {
  const plain = Buffer.from(text);
  return {
    plain,
    packed: gzipSync(plain, { level: 9 }),
    etag: `"${Bun.CryptoHasher.hash("sha256", plain, "hex").slice(0, 32)}"`,
  };
}

function assetResponse(request: Request, name: keyof typeof TYPES, { packed, plain, etag }: Asset): Response {
  const headers: Record<string, string> = { etag, "cache-control": "no-cache", vary: "accept-encoding" };
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
  const isPacked = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  if (isPacked) headers["content-encoding"] = "gzip";
  Object.assign(headers, { "content-type": TYPES[name], "x-content-type-options": "nosniff" });
  return new Response(isPacked ? packed : plain, { headers });
}

/**
 * @param prefix path of the public URL
 * @param explorers addresses of block explorers, by names and codes of chains
 */
export function consolePage(prefix: string, explorers: Readonly<Record<string, string>>) {
  let assets: Promise<Assets> | undefined;
  const serve =
    (name: keyof typeof TYPES) =>
    async ({ request }: { request: Request }): Promise<Response> => {
      assets ??= loadAssets();
      // A failed attempt is not kept.
      assets.catch(() => {
        assets = undefined;
      });
      return assetResponse(request, name, (await assets)[name]);
    };
  return new Elysia(HIDDEN)
    .get("/", () => new Response(consoleText(prefix, explorers), { headers: CONSOLE_HEADERS }))
    .get("/console/app.js", serve("app.js"))
    .get("/console/app.css", serve("app.css"));
}

// ── The API ──

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
