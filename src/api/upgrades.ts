/** Upgrades to the channel. Those of one key start in turns: a client may open thousands of sockets at once. */
import type { Server } from "bun";
import { Refusal } from "../core/errors.ts";
import { noteRequest, turnToStart } from "../core/turns.ts";
import type { ApiKey, ApiKeys } from "../operators/keys.ts";
import type { Questions } from "../operators/questions.ts";
import type { SocketData } from "./socket-peer.ts";
import { NoRoom, type SocketPlaces } from "./socket-places.ts";
import { errorResponse, keyText, withRequestId } from "./wire/answers.ts";

const SUBPROTOCOL = "evm.v2";

interface UpgradesOptions {
  readonly places: SocketPlaces;
  /** Undefined while the log is not open or has gone back. */
  readonly serving: () => { readonly keys: ApiKeys; readonly questions: Questions } | undefined;
  /** The answer while there is nothing to serve. */
  readonly unready: () => Response;
  /** Answers the refusal of a key when it is its turn. */
  readonly pace: (refusal: Response, request: Request) => Response | Promise<Response>;
}

export class Upgrades {
  readonly #options: UpgradesOptions;

  constructor(options: UpgradesOptions) {
    this.#options = options;
  }

  /** Upgrades a request, or returns the refusal. */
  answer(request: Request, server: Server<SocketData>): Response | undefined | Promise<Response | undefined> {
    const keys = this.#options.serving()?.keys;
    if (keys === undefined) return this.#options.unready();
    const id = crypto.randomUUID();
    try {
      const key = keys.check(namedKey(request));
      noteRequest(key);
      const turn = turnToStart(key);
      const admit = () => this.#admit(key, request, server, id);
      return turn === undefined ? admit() : turn.then(admit);
    } catch (error) {
      return refuse(error, id);
    }
  }

  #admit(key: ApiKey, request: Request, server: Server<SocketData>, id: string) {
    const { serving, places, unready, pace } = this.#options;
    const questions = serving()?.questions;
    if (questions === undefined) return unready();
    try {
      questions.take(key);
      places.assertFree(key);
      const offered = offeredBy(request);
      // The runtime would answer with the first offered subprotocol, which may be the key.
      if (offered.length > 0 && !offered.includes(SUBPROTOCOL)) {
        throw new Refusal("invalid_parameter", `sec-websocket-protocol: must offer ${SUBPROTOCOL}`);
      }
      const headers = { "x-request-id": id, ...(offered.length > 0 ? { "sec-websocket-protocol": SUBPROTOCOL } : {}) };
      if (server.upgrade(request, { data: { peer: undefined, key }, headers })) return undefined;
      throw new Refusal("invalid_parameter", "upgrade: not a valid WebSocket handshake");
    } catch (error) {
      return pace(refuse(error, id), request);
    }
  }
}

/** The subprotocols that a client offers, one of which may be its key. */
const offeredBy = ({ headers }: Request): string[] =>
  (headers.get("sec-websocket-protocol") ?? "")
    .split(",")
    .map((protocol) => protocol.trim())
    .filter((protocol) => protocol !== "");

/** The key that a request names, in a header or among its subprotocols. */
export function namedKey(request: Request): string | undefined {
  const prefix = "apikey.";
  return (
    keyText(request.headers) ??
    offeredBy(request)
      .find((protocol) => protocol.startsWith(prefix))
      ?.slice(prefix.length)
  );
}

/** A refused connection ends: it would take the place of another one. */
function refuse(error: unknown, id: string): Response {
  const response = withRequestId(errorResponse(error, error instanceof NoRoom ? 503 : undefined), id);
  response.headers.set("connection", "close");
  return response;
}
