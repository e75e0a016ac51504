/**
 * The AsyncAPI document of the socket. Schemas are those of `push/message-models.ts`; a test validates the document, its
 * examples, and every message of a real subscription.
 */
import type { TSchema } from "@sinclair/typebox";
import { exampleOf } from "../core/schema-parts.ts";
import { CLIENT_MESSAGES, SERVER_MESSAGES } from "../push/message-models.ts";
import { INFO } from "./openapi.ts";
import { API_PREFIX } from "./wire/paths.ts";

/** `subscribeToPrice` for `SubscribeToPriceMessage`. */
const nameOf = (component: string): string =>
  component.charAt(0).toLowerCase() + component.slice(1).replace(/Message$/, "");

function messagesOf(schemas: Readonly<Record<string, TSchema>>): Record<string, object> {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [
      name,
      {
        name: nameOf(name),
        summary: schema.description,
        contentType: "application/json",
        payload: { $ref: `#/components/schemas/${name}` },
        examples: [{ payload: exampleOf(schema) }],
      },
    ]),
  );
}

const refTo = (place: string) => ({ $ref: `#/${place}` });

/** One direction of the channel. */
const operation = (action: "receive" | "send", summary: string, schemas: object) => ({
  action,
  channel: refTo("channels/collections"),
  summary,
  messages: Object.keys(schemas).map((name) => refTo(`channels/collections/messages/${name}`)),
});

function serverOf(publicUrl: string): object {
  const { protocol, host, pathname } = new URL(publicUrl);
  const path = pathname.replace(/\/+$/, "");
  return {
    host,
    ...(path === "" ? {} : { pathname: path }),
    protocol: protocol === "https:" ? "wss" : "ws",
    description: "The key is sent in the header or, from a browser, in the subprotocols evm.v2 and apikey.<key>",
    security: [refTo("components/securitySchemes/ApiKeyAuth")],
  };
}

/** @param publicUrl base URL that clients see */
export function socketDocument(publicUrl: string): object {
  const schemas = { ...CLIENT_MESSAGES, ...SERVER_MESSAGES };
  return {
    asyncapi: "3.0.0",
    info: {
      ...INFO,
      title: `${INFO.title}: messages`,
      description:
        "The WebSocket channel. It tells when a collection has finished indexing, and what happens to it afterwards; and the price of a token whenever it changes. A message is sent once pages of the HTTP API show what it tells. Each connection and each subscribe takes a request of the key's rate, and so does what a subscription costs over time; beyond the rate, subscribe gets an error with code rate_limited that says when to try again, and the price of a token comes later. ping and unsubscribe take none. A key has a share of the connections.",
    },
    defaultContentType: "application/json",
    servers: { service: serverOf(publicUrl) },
    channels: {
      collections: {
        address: `${API_PREFIX}/ws`,
        title: "Collections",
        description: "One connection holds many subscriptions. A slow reader is closed with a reason.",
        servers: [refTo("servers/service")],
        messages: Object.fromEntries(Object.keys(schemas).map((name) => [name, refTo(`components/messages/${name}`)])),
        bindings: { ws: { method: "GET", bindingVersion: "0.1.0" } },
      },
    },
    operations: {
      request: operation("receive", "What a client sends", CLIENT_MESSAGES),
      tell: operation("send", "What the service sends", SERVER_MESSAGES),
    },
    components: {
      schemas,
      messages: messagesOf(schemas),
      securitySchemes: { ApiKeyAuth: { type: "httpApiKey", in: "header", name: "X-API-Key" } },
    },
  };
}
