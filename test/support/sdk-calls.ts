/**
 * Calls of the hosted service's own client, unmodified, in a separate process, because it can start only once per process.
 * Arguments: base URL and key. In: a JSON list of calls on standard input. Out: for each, the pages by `next()` to the end
 * (one for an operation without pages), raw and parsed; null where the client says so; or the error it threw.
 */
import Moralis from "moralis";

export interface SdkCall {
  /** Such as `nft.getNFTOwners`. */
  readonly method: string;
  readonly request: Readonly<Record<string, unknown>>;
}

/** An answer of the client. */
export interface SdkAnswer {
  // biome-ignore lint/suspicious/noExplicitAny: tests read single fields of the client's own shapes
  readonly pages?: readonly { readonly raw: any; readonly parsed: any }[] | null;
  readonly error?: string;
}

interface SdkResponse {
  readonly raw: unknown;
  readonly result: unknown;
  hasNext?(): boolean;
  next?(): Promise<SdkResponse>;
}

const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain);
  const own = value as { toJSON?(): unknown } | null;
  return own !== null && typeof own === "object" && typeof own.toJSON === "function" ? own.toJSON() : value;
};

async function call({ method, request }: SdkCall): Promise<SdkAnswer> {
  const [group = "", name = ""] = method.split(".");
  const api = Moralis.EvmApi as unknown as Record<
    string,
    Record<string, (request: unknown) => Promise<SdkResponse | null>>
  >;
  let page = await api[group]![name]!(request);
  if (page === null) return { pages: null };
  const pages: { raw: unknown; parsed: unknown }[] = [];
  for (;;) {
    pages.push({ raw: page.raw, parsed: plain(page.result) });
    if (page.hasNext?.() !== true) return { pages };
    page = await page.next!();
  }
}

if (import.meta.main) {
  const [base = "", apiKey = ""] = process.argv.slice(2);
  const calls = (await Bun.stdin.json()) as SdkCall[];
  await Moralis.start({ apiKey, evmApiBaseUrl: base });
  const answers = await Promise.all(calls.map((one) => call(one).catch((error: Error) => ({ error: error.message }))));
  await Bun.write(
    Bun.stdout,
    JSON.stringify(answers, (_, value) => (typeof value === "bigint" ? String(value) : value)),
  );
  process.exit(0);
}

/** Runs calls of the client against a service. @throws if the client wrote an error */
export async function sdkAnswers(url: string, key: string, calls: readonly SdkCall[]): Promise<readonly SdkAnswer[]> {
  const child = Bun.spawn([process.execPath, import.meta.path, `${url}/api/v2`, key], {
    stdin: new TextEncoder().encode(JSON.stringify(calls)),
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if (errors !== "") throw new Error(errors);
  return JSON.parse(output) as SdkAnswer[];
}
