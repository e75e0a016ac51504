/** `keys`: adds, lists, rotates and revokes API keys. */
import { type KeyLimits, WAY_TO_OPERATE } from "../operators/keys.ts";
import { CommandError, FAILED, type ServiceAccess, USAGE } from "./access.ts";
import { type Command, type CommandRun, unknownWord } from "./command.ts";
import { tableText } from "./terminal.ts";

/** The actions, with the options that each one takes. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  add: ["scope", "rpm", "collections", "subscriptions"],
  list: [],
  rotate: ["grace"],
  revoke: ["force"],
};
const DAY_SECONDS = 86_400;
const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: DAY_SECONDS };

export const keysCommand: Command = {
  name: "keys",
  usage:
    "keys add <name> [--scope read|operate] [--rpm N] [--collections N] [--subscriptions N] | list | rotate <name> [--grace 24h] | revoke <name> [--force]",
  summary: "Adds, lists, rotates and revokes API keys, on all replicas at once",
  maxWords: 2,
  scope: "operate",
  options: {
    scope: { type: "string" },
    rpm: { type: "string" },
    collections: { type: "string" },
    subscriptions: { type: "string" },
    grace: { type: "string" },
    force: { type: "boolean" },
  },
  help: {
    "--scope <scope>": "read (default): the two operations; operate: everything",
    "--rpm <number>": "Requests a minute on each replica; RATE_LIMIT_PER_MINUTE by default",
    "--collections <number>": "New collections an hour on each replica; COLLECTIONS_PER_HOUR by default",
    "--subscriptions <number>": "Subscriptions at one time on each replica; SUBSCRIPTIONS_PER_KEY by default",
    "--grace <time>": "How long the former key stays valid, such as 30m, 24h (default) or 7d",
    "--force": "Revokes the last key of scope operate, too",
  },
  run: async (run) => {
    const [action = "list", name] = run.words;
    const options = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined;
    if (options === undefined) throw unknownWord("action", action, Object.keys(ACTIONS));
    const ignored = Object.keys(keysCommand.options ?? {}).find((one) => one in run.values && !options.includes(one));
    if (ignored !== undefined) throw new CommandError(`keys ${action} takes no --${ignored}`, USAGE);
    if (action === "list" && name !== undefined) throw new CommandError("keys list takes no name", USAGE);
    if (action === "list") return list(run);
    if (name === undefined) throw new CommandError(`keys ${action} needs the name of a key`, USAGE);
    return changeKey(run, action, name);
  },
};

async function list({ open, print, values }: CommandRun): Promise<number> {
  await using service = await open();
  const keys = await service.ask((client) => client.keys());
  if (values["json"] === true) print(JSON.stringify(keys, null, 2));
  else {
    const rows = keys.map(({ name, scope, source, createdAt, lastUse, ...limits }) => {
      const { requestsPerMinute, collectionsPerHour, subscriptions } = limits;
      const shares = [requestsPerMinute, collectionsPerHour, subscriptions].map((limit) => String(limit ?? "–"));
      return [name, scope, source, ...shares, createdAt ?? "–", lastUse ?? "–"];
    });
    const limits = ["PER MINUTE", "NEW PER HOUR", "SUBSCRIPTIONS"];
    print(tableText(["NAME", "SCOPE", "SOURCE", ...limits, "CREATED", "LAST USE"], rows));
  }
  return 0;
}

async function changeKey({ open, print, values }: CommandRun, action: string, name: string): Promise<number> {
  const { scope = "read", grace = "24h", ...given } = values as Readonly<Record<string, string | undefined>>;
  if (scope !== "read" && scope !== "operate") throw new CommandError("--scope: must be read or operate", USAGE);
  const limits = {
    ...countIn(given, "rpm", "requestsPerMinute"),
    ...countIn(given, "collections", "collectionsPerHour"),
    ...countIn(given, "subscriptions", "subscriptions"),
  };
  const graceSeconds = secondsOf(grace);
  await using service = await open({ mayCreate: action === "add" });
  if (action === "revoke") {
    if (values["force"] !== true) await assertNotLast(service, name);
    await service.ask((client) => client.revokeKey(name));
    print(values["json"] === true ? JSON.stringify({ name, revoked: true }) : `revoked ${name}`);
    return 0;
  }
  const { key } = await service.ask((client) =>
    action === "add" ? client.addKey({ name, scope, ...limits }) : client.rotateKey(name, graceSeconds),
  );
  if (values["json"] === true) print(JSON.stringify({ name, key }));
  else print(`${key}\n\nThis is the key ${name}. It is shown once and kept only as a hash.`);
  return 0;
}

/** The limit of an option, if it is given. @throws CommandError unless it is a count */
function countIn(values: Readonly<Record<string, string | undefined>>, option: string, limit: keyof KeyLimits) {
  const text = values[option];
  if (text === undefined) return {};
  if (/^\d{1,8}$/.test(text)) return { [limit]: Number(text) };
  throw new CommandError(`--${option}: must be a whole number from 1 on`, USAGE);
}

/** @throws CommandError if no other key may operate */
async function assertNotLast(service: ServiceAccess, name: string): Promise<void> {
  const keys = await service.ask((client) => client.keys());
  const operating = keys.filter(({ scope }) => scope === "operate");
  if (operating.length !== 1 || operating[0]?.name !== name) return;
  const text = `${name} is the last key of scope operate: without one, every route for operators is closed`;
  throw new CommandError(`${text}. Add another key first, or give --force; later: ${WAY_TO_OPERATE}`, FAILED);
}

function secondsOf(text: string): number {
  const [, count = "", unit = ""] = /^(\d{1,7})([smhd])$/.exec(text) ?? [];
  const seconds = UNIT_SECONDS[unit];
  if (seconds === undefined) throw new CommandError("--grace: must be a time such as 30m, 24h or 7d", USAGE);
  return Number(count) * seconds;
}
