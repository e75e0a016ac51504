/** Client of the service for browsers, Bun and Node, without dependencies. */
export type { Answer, AsOf, CallOf } from "./calls.ts";
export { CHAIN_NAMES } from "./chain-names.ts";
export * from "./client.ts";
export { type ClientOptions, ServiceError } from "./requests.ts";
export {
  type FeedMessage,
  type PriceFeedMessage,
  type PriceSubscribeOptions,
  type SubscribeOptions,
  Subscription,
} from "./subscription.ts";
export type * from "./types.ts";
