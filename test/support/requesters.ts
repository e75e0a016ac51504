/** Keys that requests of the tests are for. */
const limits = { subscriptions: 1_000, requestsPerMinute: 6_000, collectionsPerHour: 300 };

export const READER = { key: "reader", isOperator: false, ...limits } as const;
export const OPERATOR = { key: "operator", isOperator: true, ...limits } as const;
