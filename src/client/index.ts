/** Client of the service for browsers, Bun and Node, without dependencies. */
export * from "./client.ts";
export { type ClientOptions, ServiceError } from "./requests.ts";
export { type FeedMessage, type SubscribeOptions, Subscription } from "./subscription.ts";
export type * from "./types.ts";
export { CHAIN_NAMES } from "./types.ts";
