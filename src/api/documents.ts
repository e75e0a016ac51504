/** The routes of the documents beside OpenAPI's: `/asyncapi.json` for the socket, and `/llms.txt`. */
import { Elysia } from "elysia";
import { type DocumentOptions, languageModelPage } from "./llms-page.ts";
import { HIDDEN } from "./openapi.ts";
import { socketDocument } from "./socket-document.ts";
import { json } from "./wire/answers.ts";

export const documents = (options: DocumentOptions) =>
  new Elysia(HIDDEN)
    // The documents change only with the program and its settings, so a client may cache and revalidate them.
    .get("/asyncapi.json", () => json(JSON.stringify(socketDocument(options.url())), { "cache-control": "no-cache" }))
    .get(
      "/llms.txt",
      () =>
        new Response(languageModelPage(options), {
          headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-cache" },
        }),
    );
