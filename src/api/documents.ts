/** The routes of the documents beside OpenAPI's: `/asyncapi.json` for the socket, and `/llms.txt`. */
import { Elysia } from "elysia";
import { type DocumentOptions, languageModelPage } from "./llms-page.ts";
import { HIDDEN } from "./openapi.ts";
import { socketDocument } from "./socket-document.ts";
import { json } from "./wire/answers.ts";

/** The documents change with the program and its settings, so a client asks again before it uses a kept one. */
const ASKED_AGAIN = { "cache-control": "no-cache" };

export const documents = (options: DocumentOptions) =>
  new Elysia(HIDDEN)
    .get("/asyncapi.json", () => json(JSON.stringify(socketDocument(options.url())), ASKED_AGAIN))
    .get(
      "/llms.txt",
      () =>
        new Response(languageModelPage(options), {
          headers: { "content-type": "text/plain; charset=utf-8", ...ASKED_AGAIN },
        }),
    );
