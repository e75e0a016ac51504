/** The route of the OpenAPI document, which @elysiajs/swagger generates. */

import { Elysia } from "elysia";
import type { Chains } from "../chains/chains.ts";
import type { WireTypes } from "../core/schema-parts.ts";
import { detailOf, HEADERS, HIDDEN, INFO, SECURITY, SECURITY_SCHEMES, schemasOf } from "./openapi.ts";
import type { Operation } from "./wire/operation.ts";

export const DOCUMENT = "/swagger/json";
/** The plugin's own page, which is not served: it loads scripts from another host. */
const PLUGIN_PAGE = "/swagger/plugin";

const TAGS = [
  { name: "NFT", description: "Collections, their tokens, owners, traits and transfers" },
  { name: "Token", description: "ERC-20 tokens and their prices" },
  { name: "Push", description: "WebSocket" },
  { name: "Operators", description: "Status, collections and keys; needs a key of scope operate" },
  { name: "Service", description: "Health and metrics" },
];

interface DocumentParts {
  readonly operations: readonly Operation<never>[];
  readonly wireTypes: WireTypes;
  readonly chains: Chains;
  /** The configured public URL. */
  readonly publicUrl: string | undefined;
}

/** Serves the document. It is made for the first request, since a start would wait for it and few read it. */
export function openApiDocument(parts: DocumentParts) {
  let described: Promise<Elysia> | undefined;
  return new Elysia(HIDDEN).get(DOCUMENT, async ({ request }) => {
    described ??= describe(parts);
    return (await described).handle(request);
  });
}

/** The operations with their details, without handlers: the plugin describes the routes of the application that has it. */
async function describe({ operations, wireTypes, publicUrl, chains }: DocumentParts): Promise<Elysia> {
  const { swagger } = await import("@elysiajs/swagger");
  const app = new Elysia();
  for (const operation of operations) {
    app.route(operation.method, operation.path, () => undefined, { detail: detailOf(operation, wireTypes, chains) });
  }
  return app.use(
    swagger({
      path: PLUGIN_PAGE,
      specPath: DOCUMENT,
      exclude: [PLUGIN_PAGE, DOCUMENT],
      documentation: {
        info: INFO,
        ...(publicUrl === undefined ? {} : { servers: [{ url: publicUrl }] }),
        tags: TAGS,
        components: {
          schemas: schemasOf(operations, wireTypes),
          headers: HEADERS,
          securitySchemes: SECURITY_SCHEMES,
        },
        security: [...SECURITY],
      },
    }),
  ) as unknown as Elysia;
}
