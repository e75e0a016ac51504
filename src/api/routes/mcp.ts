/**
 * The endpoint for language models: the Model Context Protocol over streamable HTTP (modelcontextprotocol.io/specification),
 * without sessions and without streams, of which the protocol makes none necessary. Its tools are the declared operations of scope
 * `read` that answer JSON, called as their routes are, with the same key, rate and bounds.
 */

import { type Static, Type } from "@sinclair/typebox";
import type { Chains } from "../../chains/chains.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { named, seldom, text, withExample } from "../../core/schema-parts.ts";
import { runInSlices } from "../../core/turns.ts";
import { asRefusal, jsonParts, NO_STORE, quotedParts } from "../wire/answers.ts";
import type { Answered, Incoming, Operation } from "../wire/operation.ts";
import { operationsFor } from "../wire/operation.ts";
import { type KnownChains, schemaOf } from "../wire/parameters.ts";
import { MCP_PATH } from "../wire/paths.ts";

/** Revisions of the protocol whose messages are these; the first is offered to a client of another one. */
const REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** JSON-RPC's codes (jsonrpc.org/specification). */
const [METHOD_NOT_FOUND, INVALID_PARAMS] = [-32_601, -32_602];

const McpMessage = named(
  "McpMessage",
  Type.Object(
    {
      jsonrpc: text("2.0", "2.0", { pattern: "^2\\.0$" }),
      id: Type.Optional(
        withExample(Type.Unknown({ description: "A string or a number; absent in a notification" }), 1),
      ),
      method: Type.Optional(text("The method; absent in an answer of the client", "tools/list", { maxLength: 128 })),
      params: seldom(Type.Object({}, { additionalProperties: true, description: "Of the method" })),
    },
    { description: "A message of the Model Context Protocol, by JSON-RPC 2.0" },
  ),
);
type McpMessage = Static<typeof McpMessage>;

const INSTRUCTIONS =
  "NFT collections and token prices of EVM chains. Addresses are 0x and 40 hex digits. chain is a name such as eth, polygon or base. The first question about a collection starts its indexing: while status is SYNCING, ask again later. Pages go on with cursor.";

interface ToolCall {
  readonly name?: unknown;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** True for an operation that is a tool: exports are files, and the socket is no answer. */
const isTool = ({ scope, answer, isUpgrade }: Operation<never>): boolean =>
  scope === "read" && isUpgrade !== true && "schema" in answer;

/** Requests of these have something done, though nothing that can be lost. */
const DOING = ["syncNFTContract", "syncNFTContractByGet", "reSyncMetadata"];

/** A tool as the protocol lists it. */
function toolOf({ id, summary, description, parts, query, body }: Operation<never>, chains: Chains) {
  const given = Object.entries({ ...query, ...parts }).map(([name, parameter]) => {
    return [name, { ...schemaOf(parameter, chains), description: parameter.description }] as const;
  });
  const required = [
    ...Object.keys(parts),
    ...Object.entries(query).flatMap(([name, { isRequired }]) => (isRequired === true ? name : [])),
    ...((body?.["required"] as string[] | undefined) ?? []),
  ];
  const properties = { ...Object.fromEntries(given), ...(body?.["properties"] as object | undefined) };
  return {
    name: id,
    description: description === undefined ? summary : `${summary}. ${description}`,
    inputSchema: {
      type: "object",
      properties,
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
    },
    annotations: { readOnlyHint: !DOING.includes(id), destructiveHint: false, openWorldHint: false },
  };
}

/** A value of JSON as a URL has it. A model may give any object, also one that has no text of its own. */
const textOf = (value: unknown): string =>
  (typeof value === "string" ? value : (JSON.stringify(value) ?? "")).toWellFormed();

/** The request that a call of a tool stands for. @throws Refusal for an argument that the operation doesn't know */
function requestOf(
  { method, path, parts, query, body }: Operation<never>,
  given: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Pick<Incoming, "request" | "search" | "params"> {
  const search = new URLSearchParams();
  const params: Record<string, string> = {};
  const fields: Record<string, unknown> = {};
  const own = (body?.["properties"] ?? {}) as object;
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (Object.hasOwn(parts, name)) params[name] = encodeURIComponent(textOf(value));
    else if (Object.hasOwn(own, name)) fields[name] = value;
    else if (Object.hasOwn(query, name)) for (const one of [value].flat()) search.append(name, textOf(one));
    else {
      const known = [...Object.keys(parts), ...Object.keys(query), ...Object.keys(own)].join(", ");
      throw new Refusal("invalid_parameter", `${name}: is not known here; the arguments are ${known}`);
    }
  }
  const request = new Request(`http://localhost${path}`, {
    ...{ method, signal, headers: { "content-type": "application/json" } },
    ...(body === undefined ? {} : { body: JSON.stringify(fields) }),
  });
  return { request, search: search.toString(), params };
}

/** Headers that tell a model for which block an answer is. */
const TOLD = /^x-(?:as-of-block|as-of-time|finality|chain-status|covered)$/;

interface ToolAnswer {
  /** JSON. */
  readonly body: Blob;
  /** The headers that a model is told. */
  readonly meta: Readonly<Record<string, string>>;
}

async function answerOf(answered: Answered): Promise<ToolAnswer> {
  const headers =
    "cached" in answered
      ? answered.cached.answer.headers
      : "response" in answered
        ? answered.response.headers
        : new Headers(answered.headers);
  const meta = Object.fromEntries([...headers].filter(([name]) => TOLD.test(name)));
  if ("cached" in answered) return { body: answered.cached.answer.body, meta };
  if ("response" in answered) return { body: await answered.response.blob(), meta };
  return { body: new Blob(await runInSlices(jsonParts(answered.body as object))), meta };
}

/** What a tool answered, or the refusal in its words: a model can correct its call by them. */
async function called<Deps>(operation: Operation<Deps>, call: ToolCall, asked: Incoming, deps: Deps): Promise<Reply> {
  try {
    const incoming = {
      ...asked,
      ...requestOf(operation as Operation<never>, call.arguments ?? {}, asked.request.signal),
    };
    return { answer: await answerOf(await operation.handle(incoming, deps)) };
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.code === "internal" || refusal.code === "log_unavailable") throw error;
    const { message, code, details, retryAfter } = refusal;
    const text = JSON.stringify({ message, code, details, retryAfter });
    return { result: { content: [{ type: "text", text }], isError: true } };
  }
}

type Reply =
  | { readonly answer: ToolAnswer }
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string } };

/** A tool's answer as a message. */
async function messageOf(id: string | number, { body, meta }: ToolAnswer): Promise<Blob> {
  const [begin, end] = [
    `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":`,
    "}]",
  ];
  return new Blob([begin, ...(await quotedParts(body)), end, `,"isError":false,"_meta":${JSON.stringify(meta)}}}`]);
}

const refused = (code: number, message: string): Reply => ({ error: { code, message } });

/** @param operations all others */
export function mcpOperation<Deps extends KnownChains & { readonly version: string }>(
  operations: readonly Operation<Deps>[],
): Operation<Deps> {
  const tools = new Map(operations.flatMap((one) => (isTool(one as Operation<never>) ? [[one.id, one] as const] : [])));

  const replyTo = async ({ method, params: given = {} }: McpMessage, asked: Incoming, deps: Deps): Promise<Reply> => {
    const params = given as Readonly<Record<string, unknown>>;
    switch (method) {
      case "initialize": {
        const wanted = textOf(params["protocolVersion"]);
        const protocolVersion = REVISIONS.includes(wanted) ? wanted : REVISIONS[0];
        const serverInfo = { name: "evm-data-service", version: deps.version };
        return { result: { protocolVersion, capabilities: { tools: {} }, serverInfo, instructions: INSTRUCTIONS } };
      }
      case "ping":
        return { result: {} };
      case "tools/list":
        return { result: { tools: [...tools.values()].map((one) => toolOf(one as Operation<never>, asked.chains)) } };
      case "tools/call": {
        const call = params as ToolCall;
        const name = textOf(call.name);
        const operation = tools.get(name);
        if (operation === undefined) return refused(INVALID_PARAMS, `there is no tool ${name.slice(0, 64)}`);
        return called(operation, call, asked, deps);
      }
      default:
        return refused(METHOD_NOT_FOUND, "the methods are initialize, ping, tools/list and tools/call");
    }
  };

  return operationsFor<Deps>().file({
    method: "POST",
    path: MCP_PATH,
    scope: "read",
    id: "mcp",
    summary: "Model Context Protocol: the operations of scope read as tools",
    description:
      "Streamable HTTP without sessions: each message is a POST, and its answer is JSON. A notification gets 202. Each call of a tool counts as a request.",
    tag: "Service",
    body: McpMessage,
    content: {
      "application/json": { schema: { type: "object" }, example: { jsonrpc: "2.0", id: 1, result: { tools: [] } } },
    },
    errors: [400],
    handle: async ({ body, request, requester, question }, deps) => {
      const { id } = body;
      const headers = { "content-type": "application/json; charset=utf-8", "cache-control": NO_STORE };
      if (id !== undefined && typeof id !== "string" && typeof id !== "number") {
        throw invalidParameter("id", "must be a string or a number, or absent in a notification");
      }
      // A notification, or an answer to a request that this server never makes.
      if (id === undefined || body.method === undefined) return new Response(null, { status: 202, headers });
      const asked = { request, search: "", params: {}, chains: deps.chains, requester, question };
      const reply = await replyTo(body, asked, deps);
      if ("answer" in reply) return new Response(await messageOf(id, reply.answer), { headers });
      return Response.json({ jsonrpc: "2.0", id, ...reply }, { headers });
    },
  });
}
