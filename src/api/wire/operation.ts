/**
 * An operation of the API, declared once: method, path, scope, parameters, body, answer, errors and its handler. The
 * router, the checks of scope and parameters, the documents and the types of the client follow from it. A handler whose
 * answer is not of the declared schema fails the type check.
 *
 * The routes are Elysia's, but not its validation: the error texts of the API name the way out, a query string that
 * repeats a parameter is an error, and unknown parameters are told in a header. The seed of the API fixed all three.
 */
import type { Static, TSchema } from "@sinclair/typebox";
import { Value, type ValueError, ValueErrorType } from "@sinclair/typebox/value";
import type { Chains } from "../../chains/chains.ts";
import { LIMITS } from "../../config.ts";
import { systemClock } from "../../core/clock.ts";
import { ClientGone, invalidParameter, Refusal } from "../../core/errors.ts";
import type { Sent } from "../../core/schema-parts.ts";
import type { KeyScope } from "../../events/types.ts";
import type { ApiKey } from "../../operators/keys.ts";
import type { Question } from "../../operators/questions.ts";
import { type Parameters, type ParsedValues, parsePath, parseQuery } from "./parameters.ts";
import type { RouteResponse } from "./response-cache.ts";

/** Statuses of errors that a handler may answer. Those of keys, rates and failures follow from the scope. */
type ErrorStatus = 400 | 401 | 404 | 409 | 410 | 426 | 503;
type Tag = "NFT" | "Token" | "Push" | "Operators" | "Service";

/** A request to an operation, parsed. */
export interface OperationRequest<Path extends Parameters, Query extends Parameters, Body extends TSchema> {
  readonly path: ParsedValues<Path>;
  readonly query: ParsedValues<Query>;
  readonly body: Static<Body>;
  readonly request: Request;
  /** The key, which was checked before. Only for operations with a scope. */
  readonly requester: ApiKey;
  readonly question: Question;
  /** Aborts when the client is gone. For operations without a key, which have no question that does. */
  readonly client: AbortSignal | undefined;
}

/** The facts of an operation that need no types. */
interface OperationFacts {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With `:name` for its parameters. */
  readonly path: string;
  /** The least scope of a key; undefined for operations without a key. */
  readonly scope: KeyScope | undefined;
  /** True if a key of scope `read` may use it with `fields=names`. */
  readonly hasNamesForRead?: boolean;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: Tag;
  readonly errors: readonly ErrorStatus[];
  /** Examples in place of the usual ones. */
  readonly errorExamples?: Partial<Record<ErrorStatus, object>>;
  /** True if the answer is valid for a block, which headers name. */
  readonly hasBlock?: boolean;
  /** True if a header says of how many collections the answer is. */
  readonly isOfCovered?: boolean;
  /** True if a success is the switch to another protocol, which the server does before the router. */
  readonly isUpgrade?: boolean;
}

/** An operation without the types of its parts, as the router and the documents see it. */
export interface Operation<Deps> extends OperationFacts {
  readonly parts: Parameters;
  readonly query: Parameters;
  readonly body: TSchema | undefined;
  /** Schema of a JSON answer, or what else the answer is, by content type. */
  readonly answer: { readonly schema: TSchema } | { readonly content: object };
  /** True if clients and this process may cache the answer. */
  readonly isCached: boolean;
  /** Answers a request. @throws Refusal */
  handle(incoming: Incoming, deps: Deps): Promise<Answered>;
}

/** A request before it is parsed. */
export interface Incoming {
  readonly request: Request;
  readonly search: string;
  readonly params: Readonly<Record<string, string>>;
  readonly chains: Chains;
  readonly requester: ApiKey | undefined;
  /** Undefined for operations without a key. */
  readonly question?: Question | undefined;
  readonly client?: AbortSignal | undefined;
}

/** An answer: a body to send as JSON with headers, bytes that may be cached, or a finished response. */
export type Answered = JsonAnswer<unknown> | { readonly cached: RouteResponse } | { readonly response: Response };

interface JsonAnswer<T> {
  readonly body: T;
  readonly headers?: Readonly<Record<string, string>>;
}

type NoBody = TSchema & { static: undefined };

interface DeclaredInputs<Path extends Parameters, Query extends Parameters, Body extends TSchema>
  extends OperationFacts {
  readonly parts?: Path;
  readonly query?: Query;
  readonly body?: Body;
}

interface JsonParts<P extends Parameters, Q extends Parameters, B extends TSchema, A extends TSchema, Deps>
  extends DeclaredInputs<P, Q, B> {
  readonly answer: A;
  handle(asked: OperationRequest<P, Q, B>, deps: Deps): Promise<JsonAnswer<Sent<A>>>;
}

interface CachedParts<P extends Parameters, Q extends Parameters, A extends TSchema, Deps>
  extends Omit<JsonParts<P, Q, NoBody, A, Deps>, "handle"> {
  handle(asked: OperationRequest<P, Q, NoBody>, deps: Deps): Promise<RouteResponse>;
}

interface FileParts<P extends Parameters, Q extends Parameters, B extends TSchema, Deps>
  extends DeclaredInputs<P, Q, B> {
  /** Media types of the answer, with schema and example. */
  readonly content: object;
  handle(asked: OperationRequest<P, Q, B>, deps: Deps): Promise<Response>;
}

// biome-ignore lint/complexity/noBannedTypes: no parameters
type None = {};

/** Ways to declare operations whose handlers need `Deps`. */
export function operationsFor<Deps>() {
  return {
    /** An operation that answers JSON. */
    json: <A extends TSchema, P extends Parameters = None, Q extends Parameters = None, B extends TSchema = NoBody>(
      declared: JsonParts<P, Q, B, A, Deps>,
    ) =>
      operation(declared, { schema: declared.answer }, (asked: OperationRequest<P, Q, B>, deps: Deps) =>
        declared.handle(asked, deps),
      ),
    /**
     * An operation whose bytes are made once for all clients until they change. The records of a listing are written as
     * bytes, so a test holds them against the schema, and not the compiler.
     */
    cached: <A extends TSchema, P extends Parameters = None, Q extends Parameters = None>(
      declared: CachedParts<P, Q, A, Deps>,
    ) => {
      const handle = async (asked: OperationRequest<P, Q, NoBody>, deps: Deps) => ({
        cached: await declared.handle(asked, deps),
      });
      return { ...operation(declared, { schema: declared.answer }, handle), isCached: true };
    },
    /** An operation whose answer is not JSON, or has a status of its own. */
    file: <P extends Parameters = None, Q extends Parameters = None, B extends TSchema = NoBody>(
      declared: FileParts<P, Q, B, Deps>,
    ) =>
      operation(declared, { content: declared.content }, async (asked: OperationRequest<P, Q, B>, deps: Deps) => ({
        response: await declared.handle(asked, deps),
      })),
  };
}

function operation<P extends Parameters, Q extends Parameters, B extends TSchema, Deps>(
  declared: DeclaredInputs<P, Q, B>,
  answer: Operation<Deps>["answer"],
  handle: (asked: OperationRequest<P, Q, B>, deps: Deps) => Promise<Answered>,
): Operation<Deps> {
  const { parts = {} as P, query = {} as Q, body, ...facts } = declared;
  return {
    ...facts,
    parts,
    query,
    body,
    answer,
    isCached: false,
    handle: async ({ request, search, params, chains, requester, question, client }, deps) => {
      const asked = {
        path: parsePath(params, parts, chains),
        query: parseQuery(search, query, chains),
        body: (body === undefined ? undefined : await bodyOf(request, body)) as Static<B>,
        request,
        requester: requester as ApiKey,
        question: question as Question,
        client,
      };
      return handle(asked, deps);
    },
  };
}

/** Reads and validates a body. @throws Refusal 400 that names the field; 413 */
async function bodyOf(request: Request, schema: TSchema): Promise<unknown> {
  const bytes = await bytesOf(request);
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw invalidParameter("body", "must be JSON in UTF-8");
  }
  const error = Value.Errors(schema, value).First();
  if (error === undefined) return value;
  throw invalidParameter(error.path.slice(1).replaceAll("/", ".") || "body", allowedText(error));
}

/** What a field may be, in words. */
function allowedText({ type, schema, message }: ValueError): string {
  const { enum: words, properties = {}, description, pattern, minimum, maxItems } = schema;
  const fields = Object.keys(properties).join(", ");
  if (type === ValueErrorType.ObjectAdditionalProperties) return `is not known here; the fields are ${fields}`;
  if (type === ValueErrorType.ObjectRequiredProperty) return "is missing";
  if (words !== undefined) return `must be one of ${words.join(", ")}`;
  if (type === ValueErrorType.ArrayMaxItems) return `must have at most ${maxItems} entries`;
  if (pattern !== undefined) return `must be ${description}`;
  if (schema["type"] === "integer" && minimum !== undefined) return `must be a whole number from ${minimum} on`;
  return message;
}

/** Reads a body up to the limits of its size and of its time. @throws Refusal 413; ClientGone */
async function bytesOf({ headers, body }: Request): Promise<Buffer> {
  const message = `body: must not be longer than ${LIMITS.maxRequestBody} bytes`;
  const tooLong = new Refusal("too_large", message, { details: { parameter: "body" } });
  if (Number(headers.get("content-length")) > LIMITS.maxRequestBody) throw tooLong;
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body?.getReader();
  let isLate = false;
  // A client that sends a byte now and then would keep its connection, and its file, for as long as it likes.
  const cancel = systemClock.after(LIMITS.bodyMs, () => {
    isLate = true;
    reader?.cancel().catch(() => undefined);
  });
  try {
    for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
      length += next.value.length;
      if (length > LIMITS.maxRequestBody) throw tooLong;
      chunks.push(next.value);
    }
  } catch (error) {
    // The body comes from the client alone.
    throw error instanceof Refusal ? error : new ClientGone("the client left within its request", { cause: error });
  } finally {
    cancel();
  }
  if (isLate) throw new ClientGone(`the client has not sent its request's body within ${LIMITS.bodyMs} ms`);
  // A connection that is closed within a body may end it without an error.
  if (length < Number(headers.get("content-length"))) throw new ClientGone("the body is shorter than it said");
  return Buffer.concat(chunks);
}
