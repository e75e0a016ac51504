/**
 * Judges single answers: which statuses a client may get, how fast an error comes, and whether a page's block is one
 * that the service may show. `walkers.ts` judges whole walks.
 */
import type { Cluster } from "./cluster.ts";
import { ANSWER_MS, type Asked, type Replica } from "./replica.ts";

/** A client must learn this soon that it gets no answer. */
const ERROR_MS = 2_500;
/** A page may show a block this long after the chain has replaced it: the replica must learn of it first. */
const FORK_GRACE_MS = 10_000;
const PRICE_CODES = ["no_pool", "low_liquidity", "not_a_token", "unknown_decimals", "no_price_at_block"];

export interface PageFacts {
  readonly block: number;
  readonly hash: string;
  readonly finality: string;
}

/** The answer's body if it is 200. Reports what may not be. A process that was disturbed meanwhile may fail. */
function bodyOf({ findings }: Cluster, replica: Replica, path: string, asked: Asked): string | undefined {
  const { response, text, failure, ms, isDisturbed } = asked;
  const where = `${replica.name} ${path.slice(0, 90)}`;
  if (response === undefined) {
    if (isDisturbed) findings.count("unanswered by a disturbed process");
    else findings.violation(`${where}: no answer within ${ANSWER_MS / 1_000} s or a broken connection: ${failure}`);
    return undefined;
  }
  if (response.status === 200) return text;
  if (response.status !== 503) return undefined;
  findings.count("503s");
  if (response.headers.get("retry-after") === null) findings.violation(`${where}: 503 without Retry-After: ${text}`);
  if (ms > ERROR_MS && !isDisturbed) findings.violation(`${where}: 503 after ${Math.round(ms)} ms: ${text}`);
  return undefined;
}

/** Asks for a page. Undefined for an answer that a client may get and that is not 200. */
export async function askForPage(
  cluster: Cluster,
  replica: Replica,
  path: string,
): Promise<{ body: string; facts: PageFacts } | "ended" | undefined> {
  const { findings, chain } = cluster;
  const started = performance.now();
  const asked = await replica.ask(path);
  const body = bodyOf(cluster, replica, path, asked);
  const { response } = asked;
  const where = `${replica.name} ${path.slice(0, 90)}`;
  if (body === undefined || response === undefined) {
    const status = response?.status ?? 503;
    if (status === 409 || status === 410) return "ended";
    if (status !== 503) findings.violation(`${where}: ${status} ${asked.text.slice(0, 300)}`);
    return undefined;
  }
  findings.count("pages");
  const header = (name: string) => response.headers.get(name) ?? "";
  const facts = {
    block: Number(header("x-as-of-block")),
    hash: header("x-as-of-hash"),
    finality: header("x-finality"),
  };
  if (facts.finality === "stale") findings.count("stale pages");
  if (facts.hash !== "" && !chain.isKnown(facts.hash)) {
    const what = `${where}: page of block ${facts.block} with the unknown hash ${facts.hash}`;
    findings.violation(what, `unknown ${replica.name} ${facts.hash}`);
  }
  const left = chain.leftAt(facts.hash);
  if (left !== undefined && !chain.isCanonical(facts.hash)) {
    if (facts.finality === "finalized") {
      const what = `${where}: block ${facts.block} is called finalized and has left the chain`;
      findings.violation(what, `finalized ${replica.name} ${facts.hash}`);
    } else if (facts.finality === "latest" && !path.includes("cursor=") && left < started - FORK_GRACE_MS) {
      const age = ((started - left) / 1_000).toFixed(1);
      const what = `${where}: block ${facts.block} is called latest and left the chain ${age} s before`;
      findings.violation(what, `latest ${replica.name} ${facts.hash}`);
    }
  }
  return { body, facts };
}

/** Asks for a price. Only a price or the reason for its absence is right. */
export async function askForPrice(cluster: Cluster, replica: Replica, token: string): Promise<void> {
  const { findings } = cluster;
  const path = `/api/v2/erc20/${token}/price`;
  const asked = await replica.ask(path);
  const status = asked.response?.status;
  const isSlowNode = status === 503 && !asked.text.includes("log_unavailable");
  // The limit on the time of an error is about the log. Endpoints may take longer to fail.
  const body = bodyOf(cluster, replica, path, isSlowNode ? { ...asked, ms: 0 } : asked);
  if (status === undefined || status === 503) return;
  findings.count("prices");
  const isReason = status === 404 && PRICE_CODES.some((code) => asked.text.includes(`"${code}"`));
  if (body === undefined && !isReason) {
    findings.violation(`${replica.name} ${path}: ${status} ${asked.text.slice(0, 300)}`);
  }
}
