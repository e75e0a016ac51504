/**
 * The listening socket: passes HTTP to the app and upgrades to the channel, while there is room for another socket and
 * the key has a place left.
 */
import http from "node:http";
import type { WebSocketHandler } from "bun";
import { LIMITS } from "../config.ts";
import { type Clock, withTimeout } from "../core/clock.ts";
import { Refusal } from "../core/errors.ts";
import type { Metrics } from "../core/metrics.ts";
import type { ApiKeys } from "../operators/keys.ts";
import type { Questions } from "../operators/questions.ts";
import type { Channel } from "../push/channel.ts";
import type { App } from "./app.ts";
import { PacedRefusals } from "./paced-refusals.ts";
import {
  type Answerer,
  arePlain,
  hasOneHost,
  isPlain,
  MAX_SEGMENTS,
  NOT_ONE_HOST,
  refusePath,
  routesOf,
} from "./plain-requests.ts";
import { GOING_AWAY, POLICY_VIOLATION, SERVICE_RESTART, type SocketData, SocketPeer } from "./socket-peer.ts";
import { SocketPlaces } from "./socket-places.ts";
import { namedKey, Upgrades } from "./upgrades.ts";
import { CLIENT_GONE, errorResponse, json, TOO_LARGE, withRequestId } from "./wire/answers.ts";
import { isOwnPath } from "./wire/paths.ts";
import { pathOf, targetOf } from "./wire/target.ts";

/** The parts that serve requests once the log is open. */
export interface Serving {
  readonly app: App;
  readonly channel: Channel;
  readonly keys: ApiKeys;
  readonly questions: Questions;
  readonly metrics: Metrics;
}

interface ServerOptions {
  readonly host: string;
  readonly port: number;
  /** Path of the public URL. A proxy may keep it or strip it. */
  readonly prefix: string;
  readonly clock: Clock;
  /** WebSocket connections that the system has room for. Default: no limit of the system. */
  readonly maxSockets?: number;
  /** Called for each answer and each upgrade. True while the process has little room for further connections. */
  readonly isCrowded?: () => boolean;
  /** Undefined while the log is not open or has gone back. Until then only `/health/live` returns 200. */
  readonly serving: () => Serving | undefined;
}

const RATE_LIMITED = 429;
const SOCKET_PATH = "/api/v2/ws";
/** Seconds without a message or a pong until a connection counts as dead. */
const IDLE_SECONDS = 120;
const KEY_IS_OVER = "the API key is no longer valid";
const IS_STOPPING = "the server is stopping";

export interface RunningServer {
  readonly port: number;
  /** Closes all sockets, because the log went back. Their clients should connect again. */
  disconnect(): void;
  /** Closes the sockets whose key is no longer valid. */
  dropKeys(keys: Pick<ApiKeys, "isValid">): void;
  /**
   * Takes requests for up to `drainMs` more, and ends each connection with its answer. Then closes the rest.
   * @param drainMs default: takes none
   */
  stop(drainMs?: number): Promise<void>;
}

/** Starts to listen. Returns the bound port. @throws when the port is in use */
export function startServer(options: ServerOptions): RunningServer {
  const { host, port, clock } = options;
  const peers = new Set<SocketPeer>();
  const places = new SocketPlaces(Math.min(LIMITS.maxSockets, options.maxSockets ?? Number.POSITIVE_INFINITY));
  const drain = new Drain(clock);
  const refusals = new PacedRefusals({ clock, room: () => places.free });
  const answer = answererOf({ ...options, drain, places, refusals });
  // With the runtime's own bound of 16 KB a long cursor would get a bare 431 instead of an error that names it.
  Object.assign(http, { maxHeaderSize: LIMITS.maxRequestHead });
  const server = Bun.serve<SocketData>({
    hostname: host,
    port,
    idleTimeout: 60,
    maxRequestBodySize: LIMITS.maxSentBody,
    routes: routesOf((request, self) =>
      Object.values(request.params).every(isPlain) ? answer(request, self) : refusePath(),
    ),
    // A path with more segments, or with an empty one. Any other one was written with dots.
    fetch: (request, self) => {
      const path = pathOf(targetOf(request.url));
      const isUnrouted = path.includes("//") || path.split("/").length > MAX_SEGMENTS + 1;
      return isUnrouted && arePlain(path) ? answer(request, self) : refusePath();
    },
    error: () => withRequestId(errorResponse(undefined)),
    websocket: socketHandlers({ ...options, drain, peers, places }),
  });
  const closeAll = (code: number, reason: string) => {
    for (const peer of peers) peer.close(code, reason);
  };
  return {
    port: server.port ?? port,
    disconnect: () => closeAll(SERVICE_RESTART, "the event log went back: connect and subscribe again"),
    dropKeys: (keys) => {
      for (const peer of peers) {
        if (!keys.isValid(peer.key.hash)) peer.close(POLICY_VIOLATION, KEY_IS_OVER);
      }
    },
    stop: async (drainMs = 0) => {
      const begun = clock.monotonic();
      const drained = drain.run(drainMs);
      refusals.end();
      await drained;
      closeAll(GOING_AWAY, IS_STOPPING);
      // Lets requests in flight finish, up to the grace period, then cuts all connections.
      await withTimeout(clock, LIMITS.stopGraceMs - (clock.monotonic() - begun), server.stop(false));
      await server.stop(true);
    },
  };
}

/** Without a request in this time, proxies and clients have left. */
const QUIET_MS = 300;

/**
 * The time between the signal to stop and the end of listening. A kept connection that closes by itself may have a request
 * on its way, which is lost unless it is repeated. So connections end with an answer that says so.
 */
class Drain {
  readonly #clock: Clock;
  #isRunning = false;
  /** True once the server begins to close its sockets. An upgrade that waited for its turn may still open another one. */
  isOver = false;
  #requests = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. Returns true if its connection must end. */
  takes(): boolean {
    if (this.#isRunning) this.#requests++;
    return this.#isRunning;
  }

  /** Resolves after `ms`, or earlier when no request comes any more. */
  async run(ms: number): Promise<void> {
    this.#isRunning = true;
    const end = this.#clock.monotonic() + ms;
    for (let before = -1; before < this.#requests && this.#clock.monotonic() < end; ) {
      before = this.#requests;
      await this.#clock.sleep(Math.min(QUIET_MS, end - this.#clock.monotonic()));
    }
    this.isOver = true;
  }
}

interface AnswererOptions extends ServerOptions {
  readonly drain: Drain;
  readonly places: SocketPlaces;
  readonly refusals: PacedRefusals;
}

/** Passes requests to the application, and upgrades to the channel while there is room for another socket. */
function answererOf(options: AnswererOptions): Answerer {
  const { prefix, serving, drain, refusals, isCrowded = () => false } = options;
  const pace = (refusal: Response, request: Request) => refusals.pace(refusal, namedKey(request) ?? "", request.signal);
  const upgrades = new Upgrades({ ...options, pace, unready: () => unready(SOCKET_PATH, true) });
  let isStarted = false;
  /** Ends the connection after the answer if the service stops, has little room, or would wait for the rest of a body. */
  const closing = (response: Response, request: Request): Response => {
    // A proxy that is still there sends the request to another process.
    if (response.status === CLIENT_GONE) return hangUp();
    if (drain.takes() || isCrowded() || hasUnreadBody(request, response)) response.headers.set("connection", "close");
    return response;
  };
  /** Answers a refusal when it is its turn. The service may have begun to stop by then. */
  const inTurn = (response: Response, request: Request): Response | Promise<Response> => {
    const due = response.status === RATE_LIMITED ? pace(response, request) : response;
    return due instanceof Response ? closing(due, request) : due.then((refusal) => closing(refusal, request));
  };
  return (request, server) => {
    if (!hasOneHost(request)) return withRequestId(errorResponse(NOT_ONE_HOST));
    const ready = serving();
    const target = withoutPrefix(targetOf(request.url), prefix);
    const path = pathOf(target);
    if (ready === undefined) return unready(path, isStarted);
    isStarted = true;
    if (path === SOCKET_PATH && isUpgrade(request)) {
      // A socket takes a file, as the connection of an answer does.
      isCrowded();
      return upgrades.answer(request, server);
    }
    const answer = ready.app.handle(request, target, path);
    if (answer instanceof Response) return inTurn(answer, request);
    // An answer that is made while the log goes back may come from lost records.
    return answer.then(async (made) => {
      if (serving() === ready) return inTurn(made, request);
      await made.body?.cancel();
      return unready(path, true);
    });
  };
}

/**
 * True for a request that was answered before its body was read to the end: most refusals read nothing of it, and a 413 may
 * have read a part. The client may send the rest as slowly as it likes.
 */
const hasUnreadBody = ({ headers, bodyUsed }: Request, { status }: Response): boolean =>
  (!bodyUsed || status === TOO_LARGE) &&
  (headers.has("transfer-encoding") || (headers.get("content-length") ?? "0") !== "0");

const isUpgrade = ({ method, headers }: Request): boolean =>
  method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket";

interface SocketHandling extends Pick<ServerOptions, "clock" | "serving"> {
  readonly drain: Drain;
  /** The open sockets, and their places. The handlers keep both. */
  readonly peers: Set<SocketPeer>;
  readonly places: SocketPlaces;
}

/** What the runtime calls for sockets. */
function socketHandlers({ clock, serving, drain, peers, places }: SocketHandling): WebSocketHandler<SocketData> {
  return {
    maxPayloadLength: LIMITS.maxSocketMessage,
    idleTimeout: IDLE_SECONDS,
    sendPings: true,
    // `maxSocketBuffer` closes with a reason long before this bound would close without one.
    backpressureLimit: LIMITS.maxSocketBuffer * 16,
    open: (socket) => {
      const ready = serving();
      if (ready === undefined) return;
      const peer = new SocketPeer(socket, clock, ready);
      socket.data.peer = peer;
      peers.add(peer);
      places.take(peer.key);
      ready.metrics.sockets.set(peers.size);
      ready.channel.open(peer);
      // The key may have been revoked during the handshake.
      if (!ready.keys.isValid(peer.key.hash)) peer.close(POLICY_VIOLATION, KEY_IS_OVER);
      if (drain.isOver) peer.close(GOING_AWAY, IS_STOPPING);
    },
    message: async (socket, message) => {
      const { peer } = socket.data;
      if (peer?.countMessage() !== true) return;
      await serving()?.channel.receive(peer, message);
    },
    pong: (socket, data) => socket.data.peer?.onPong(data.toString()),
    close: (socket) => {
      const { peer } = socket.data;
      if (peer === undefined) return;
      peers.delete(peer);
      places.leave(peer.key);
      peer.endQuestions();
      const ready = serving();
      ready?.metrics.sockets.set(peers.size);
      ready?.channel.close(peer);
    },
  };
}

/**
 * The target below the public URL's path. A proxy may have stripped the path already, and it may look like a route: with
 * the path `/api`, `/api/v2/…` is whole and `/api/api/v2/…` is not. So the path is stripped only if a route remains.
 */
function withoutPrefix(target: string, prefix: string): string {
  if (prefix === "" || !target.startsWith(prefix)) return target;
  const rest = target.slice(prefix.length);
  if (rest === "" || rest.startsWith("?")) return `/${rest}`;
  return isOwnPath(pathOf(rest)) ? rest : target;
}

/** Closes the connection without an answer, so that a proxy sends the request to another process. */
const hangUp = (): Response =>
  new Response(new ReadableStream({ pull: (controller) => controller.error() }, { highWaterMark: 0 }));

/**
 * A process that is not ready yet answers only for its health. One whose log went back says so until it has read it
 * again: its clients were served before.
 * @param isStarted true if the log was open before
 */
export function unready(path: string, isStarted: boolean): Response {
  if (/^\/health\/live\/?$/.test(path)) return withRequestId(json('{"status":"live"}'));
  if (!isStarted && !/^\/health\/ready\/?$/.test(path)) return hangUp();
  const options = { retryAfter: 1 };
  const error = isStarted
    ? new Refusal("log_unavailable", "the event log went back and is read again; try again", options)
    : new Refusal("starting", "the event log is not open yet; try again", options);
  return withRequestId(errorResponse(error));
}
