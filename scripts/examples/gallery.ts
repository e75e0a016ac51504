/**
 * A gallery of a collection: pictures, names and owners, filtered by trait, page by page as of one block. Visitors talk
 * to this server only, so the key stays here. Open pages load again when the socket tells of a change.
 *
 *     SERVICE_KEY=… bun scripts/examples/gallery.ts 0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d --port 8080
 */
import {
  type Client,
  type Contract,
  type FeedMessage,
  type NftPage,
  type NftRecord,
  ServiceError,
  type TokenList,
  type TraitList,
} from "../../src/client/index.ts";
import { aborted, runExample } from "./command-line.ts";
import { fileAnswer, type Html, html, pageAnswer, safeUrl, shortened } from "./html.ts";

const USAGE = `usage: SERVICE_KEY=… bun scripts/examples/gallery.ts ADDRESS [--chain eth] [--port 0] [--url URL]
  Serves a gallery of the collection on 127.0.0.1. --port, or the variable PORT: 0 takes a free one.`;

const PER_PAGE = 24;
/** Open pages that are told of changes, at one connection each. */
const MAX_LISTENERS = 1_000;
/** A select with more would be of no use. */
const MAX_TRAIT_TYPES = 20;
const MAX_TRAIT_VALUES = 50;

export interface GalleryOptions {
  readonly client: Client;
  readonly address: string;
  readonly chain?: string;
  /** Default: a free one. */
  readonly port?: number;
}

export interface Gallery {
  readonly url: string;
  /** Resolves after `stop`. Rejects if the service refuses the key, or lacks the collection for good. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

type Answer = (NftPage | TokenList) & { readonly asOf: { readonly block: number; readonly finality: string } | null };

/** What a page shows. */
interface View {
  readonly answer: Answer;
  readonly traits: TraitList | undefined;
  readonly trait: string | undefined;
  readonly address: string;
}

export function startGallery({ client, address, chain = "eth", port = 0 }: GalleryOptions): Gallery {
  const listeners = new Set<ReadableStreamDefaultController<Uint8Array>>();
  const contract = { chain, address };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    routes: {
      "/": { GET: (request) => galleryPage(client, contract, new URL(request.url).searchParams) },
      "/gallery.css": { GET: () => fileAnswer(STYLE, "text/css") },
      "/gallery.js": { GET: () => fileAnswer(SCRIPT, "text/javascript") },
      "/events": {
        GET: (request, self) => {
          if (listeners.size >= MAX_LISTENERS) return new Response("too many open pages", { status: 503 });
          self.timeout(request, 0);
          return eventStream(listeners);
        },
      },
    },
    fetch: () => new Response("not found", { status: 404 }),
  });
  const subscription = client.subscribe(address, { chain });
  const ended = (async () => {
    for await (const message of subscription) {
      if (message.type === "failed" && message.nextTry === null) throw new Error(`${address}: ${message.reason}`);
      if (isChange(message)) broadcast(listeners, message.type);
    }
  })();
  // The caller may look at `ended` later than it fails.
  ended.catch(() => undefined);
  return {
    url: server.url.href,
    ended,
    stop: async () => {
      subscription.close();
      await server.stop(true);
    },
  };
}

/** True for messages after which the listing, or its metadata, is another one. */
function isChange(message: FeedMessage): boolean {
  if (message.type === "status") return message.gap === true;
  return ["transfers", "indexed", "metadata", "reorged"].includes(message.type);
}

const encoder = new TextEncoder();

function eventStream(listeners: Set<ReadableStreamDefaultController<Uint8Array>>): Response {
  let own: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      own = controller;
      listeners.add(controller);
      // The first bytes make the browser see an open stream.
      controller.enqueue(encoder.encode("retry: 2000\n\n"));
    },
    cancel: () => {
      listeners.delete(own);
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream", "cache-control": "no-store" } });
}

function broadcast(listeners: Set<ReadableStreamDefaultController<Uint8Array>>, type: string): void {
  const bytes = encoder.encode(`data: ${type}\n\n`);
  for (const listener of listeners) {
    try {
      listener.enqueue(bytes);
    } catch {
      // The page was closed meanwhile.
      listeners.delete(listener);
    }
  }
}

async function galleryPage(client: Client, contract: Contract, search: URLSearchParams): Promise<Response> {
  // An empty choice in the form means all tokens.
  const trait = search.get("trait") || undefined;
  const cursor = search.get("cursor") ?? undefined;
  try {
    const [answer, traits] = await Promise.all([
      readPage(client, contract, { trait, cursor }),
      // More than 100,000 tokens have no traits here. The gallery works without the filter.
      client.traits(contract).catch(() => undefined),
    ]);
    const view = { answer, traits, trait, address: contract.address };
    return pageAnswer(pageOf(view), pictureOrigins(answer.result));
  } catch (error) {
    return errorPage(error);
  }
}

function readPage(
  client: Client,
  { chain = "eth", address }: Contract,
  { trait, cursor }: { readonly trait: string | undefined; readonly cursor: string | undefined },
): Promise<Answer> {
  const at = cursor === undefined ? {} : { cursor };
  if (trait !== undefined) return client.tokenPage({ chain, address }, { trait: [trait], limit: PER_PAGE, ...at });
  const shown = { normalizeMetadata: true, media_items: true };
  return client.nftPage(address, { chain, limit: PER_PAGE, ...shown, ...at });
}

function errorPage(error: unknown): Response {
  if (!(error instanceof ServiceError)) throw error;
  // The block of the visitor's page left the chain. The first page is of another one.
  if (error.code === "cursor_reorged") return new Response(null, { status: 303, headers: { location: "/" } });
  const status = error.status >= 400 && error.status < 500 && error.status !== 401 ? error.status : 502;
  // The message may quote the visitor's own parameters, and the reason of a 401 is the operator's matter.
  const message = status === 502 ? "The service does not answer. Try again later." : error.message;
  return pageAnswer(framed("Gallery", html`<p>${message}</p><p><a href="/">First page</a></p>`), [], status);
}

function pageOf({ answer, traits, trait, address }: View): Html {
  const [first] = answer.result;
  const title = first === undefined || first.name === "" ? address : shortened(first.name);
  const isPartial = "status" in answer && answer.status === "SYNCING";
  const asOf = answer.asOf === null ? html`` : html`<p>As of block ${answer.asOf.block}, ${answer.asOf.finality}.</p>`;
  const next = new URLSearchParams({ ...(trait === undefined ? {} : { trait }), cursor: answer.cursor ?? "" });
  return framed(
    title,
    html`<header><h1><bdi>${title}</bdi></h1><p><code>${address}</code></p>${asOf}
${isPartial ? html`<p>The collection is being indexed: more tokens will follow.</p>` : html``}
<p id="changed" hidden>The collection has changed. <a href="/">Show it as it is now</a></p>
${traits === undefined ? html`` : traitForm(traits, trait)}</header>
<main>${answer.result.map(card)}${answer.result.length === 0 ? html`<p>No tokens.</p>` : html``}</main>
${answer.cursor === null ? html`` : html`<nav><a href="/?${next.toString()}">Next page</a></nav>`}`,
  );
}

function framed(title: string, body: Html): Html {
  return html`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><link rel="stylesheet" href="/gallery.css"><script src="/gallery.js" defer></script></head>
<body>${body}</body></html>`;
}

function card(record: NftRecord): Html {
  const { token_id: id, owner_of: owner, amount, normalized_metadata: metadata, media } = record;
  const name = metadata === "" || metadata.name === null ? `#${id}` : String(metadata.name);
  // A picture of the author's server would tell that server each visitor's address. Previews are the service's own.
  const preview = media === "" ? undefined : safeUrl(media.media_collection?.medium.url);
  const original = media === "" ? undefined : safeUrl(media.original_media_url);
  const picture =
    preview === undefined
      ? html`<span class="none">no picture</span>`
      : html`<img src="${preview}" alt="" loading="lazy" width="250" height="250">`;
  const holder = owner === "" ? `${amount} pieces, several holders` : owner;
  return html`<figure>${
    original === undefined ? picture : html`<a href="${original}" rel="noopener noreferrer nofollow">${picture}</a>`
  }<figcaption><b><bdi>${shortened(name)}</bdi></b><span>#${shortened(id, 20)}</span><code>${holder}</code></figcaption></figure>\n`;
}

function traitForm({ result }: TraitList, chosen: string | undefined): Html {
  const groups = result.slice(0, MAX_TRAIT_TYPES).map(
    ({ type, values }) =>
      html`<optgroup label="${shortened(type)}">${values.slice(0, MAX_TRAIT_VALUES).map(({ value, count }) => {
        const trait = `${type}:${value}`;
        const selected = trait === chosen ? html` selected` : html``;
        return html`<option value="${trait}"${selected}>${shortened(value)} (${count})</option>`;
      })}</optgroup>`,
  );
  if (groups.length === 0) return html``;
  return html`<form><select name="trait"><option value="">All</option>${groups}</select> <button>Show</button></form>`;
}

function pictureOrigins(records: readonly NftRecord[]): string[] {
  const urls = records.map(({ media }) => (media === "" ? undefined : safeUrl(media.media_collection?.medium.url)));
  return [...new Set(urls.flatMap((url) => (url === undefined ? [] : [new URL(url).origin])))];
}

const STYLE = `body { font: 16px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 1rem }
figure { margin: 0; border: 1px solid #ddd; border-radius: 8px; overflow: hidden }
figure img, .none { display: grid; place-items: center; width: 100%; height: 250px; object-fit: cover; background: #f2f2f2 }
figcaption { display: grid; padding: .75rem; overflow: hidden } figcaption > * { overflow: hidden; text-overflow: ellipsis }
code { font-size: .8em }`;

/** A later page is of its cursor's block and would not change, so only the first page is loaded again. */
const SCRIPT = `const isFirst = !new URLSearchParams(location.search).has("cursor");
let waiting;
new EventSource("/events").onmessage = () => {
  if (!isFirst) document.querySelector("#changed").hidden = false;
  else waiting ??= setTimeout(() => location.reload(), 1000);
};`;

if (import.meta.main) {
  await runExample(USAGE, ["port"], async (line) => {
    const { client, chain, signal } = line;
    const gallery = startGallery({ client, chain, port: line.port(), address: line.address(0, "ADDRESS") });
    console.log(`The gallery is at ${gallery.url}`);
    try {
      await Promise.race([gallery.ended, aborted(signal)]);
    } finally {
      await gallery.stop();
    }
  });
}
