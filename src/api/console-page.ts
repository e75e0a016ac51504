/**
 * The console at `/`. `Bun.build` makes its scripts and style from `src/console` when a browser first asks for them, so a start
 * doesn't wait for the build.
 */
import { gzipSync } from "node:zlib";
import { Elysia } from "elysia";
import { embeddedPath, IS_COMPILED } from "../core/embedded-files.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { PROGRAM } from "../core/program.ts";
import { CSS, HTML, pageOf, SCRIPT } from "./browser-page.ts";
import { HIDDEN } from "./openapi.ts";

const ENTRY = new URL("../console/main.tsx", import.meta.url);
/** The verifier of proofs, which the console loads when a visitor asks for one. */
const VERIFIER = new URL("../proof/verifier/verify.ts", import.meta.url);

/**
 * Everything comes from this service but a token's video or sound, which a visitor plays from the host that the metadata names.
 * Styles that the script sets on elements need no exception.
 */
const POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src https: data:",
  "connect-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join("; ");

const CONSOLE_HEADERS = {
  "content-type": HTML,
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-cache",
};
const TYPES = { "app.js": SCRIPT, "app.css": CSS, "proof.js": SCRIPT } as const;

const consoleText = (prefix: string, explorers: Readonly<Record<string, string>>) =>
  pageOf({
    title: "EVM data service",
    head: `<link rel="stylesheet" href="${prefix}/console/app.css">
<script type="module" src="${prefix}/console/app.js"></script>`,
    body: `<div id="console" data-explorers="${Bun.escapeHTML(JSON.stringify(explorers))}" data-program="${Bun.escapeHTML(PROGRAM)}"><noscript>This page needs JavaScript. The API doesn't: see <a href="${prefix}/swagger">/swagger</a>.</noscript></div>`,
  });

interface Asset {
  readonly packed: Buffer;
  readonly plain: Buffer;
  readonly etag: string;
}
type Assets = Readonly<Record<keyof typeof TYPES, Asset>>;

/** Reads or makes the files. @throws AppError if the sources can't be bundled */
async function loadAssets(): Promise<Assets> {
  const embedded = (name: keyof typeof TYPES) => Bun.file(embeddedPath(name)).text();
  const texts = IS_COMPILED
    ? {
        ...{ "app.js": await embedded("app.js"), "app.css": await embedded("app.css") },
        "proof.js": await embedded("proof.js"),
      }
    : await bundleConsole();
  return {
    ...{ "app.js": assetOf(texts["app.js"]), "app.css": assetOf(texts["app.css"]) },
    "proof.js": assetOf(texts["proof.js"]),
  };
}

/**
 * Bundles the console's sources into its scripts and its style. `scripts/compile.ts` embeds them.
 * @throws AppError if the sources can't be bundled
 */
export async function bundleConsole(): Promise<Readonly<Record<keyof typeof TYPES, string>>> {
  const [app, verifier] = await Promise.all([bundled(ENTRY), bundled(VERIFIER)]);
  return { "app.js": app.script, "app.css": app.style, "proof.js": verifier.script };
}

async function bundled(entry: URL): Promise<{ readonly script: string; readonly style: string }> {
  const built = await Bun.build({
    entrypoints: [Bun.fileURLToPath(entry)],
    target: "browser",
    format: "esm",
    minify: true,
  }).catch((error: unknown) => {
    throw new AppError(`the console can't be bundled: ${messageOf(error)}`, { code: "console_broken", cause: error });
  });
  const textOf = async (type: string) => built.outputs.find(({ path }) => path.endsWith(type))?.text() ?? "";
  return { script: await textOf(".js"), style: await textOf(".css") };
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
    .get("/console/app.css", serve("app.css"))
    .get("/console/proof.js", serve("proof.js"));
}
