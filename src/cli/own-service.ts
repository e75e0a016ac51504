/** The service in the command's own process, for work that needs endpoints while no service runs. */
import { randomBytes } from "node:crypto";
import type { Config } from "../config.ts";
import { createLogger } from "../core/logger.ts";
import { CommandError, HttpOperator, type Operator, USAGE } from "./access.ts";
import type { CommandRun } from "./command.ts";

export interface Work<T extends Operator = Operator> {
  readonly operator: T;
  close(): Promise<void>;
}

/** Starts the service on a free port of this machine, with a key of its own. */
export async function ownService(config: Config): Promise<Work<HttpOperator>> {
  const { startService } = await import("../service.ts");
  const key = randomBytes(32).toString("base64url");
  const hash = Bun.CryptoHasher.hash("sha256", key, "hex");
  const apiKeys = [{ name: "command", scope: "operate", hash } as const];
  const own = { ...config, host: "127.0.0.1", port: 0, publicUrl: undefined, apiKeys };
  const service = await startService({ config: own, logger: createLogger("error") });
  return { operator: new HttpOperator(`http://127.0.0.1:${service.port}`, key), close: () => service.stop() };
}

/** The given service, or one in this process. */
export async function serviceOf(run: CommandRun): Promise<Work<HttpOperator>> {
  if (run.values["url"] === undefined) return ownService(run.config());
  const operator = await run.open();
  if (!(operator instanceof HttpOperator)) throw new CommandError("the command needs a service: give --url", USAGE);
  return { operator, close: () => operator.close() };
}
