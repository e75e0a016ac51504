/** What is wrong with a chain, on each screen of it, with the way out. */
import { usePolled } from "./hooks.ts";
import { useSession } from "./session.ts";

const POLL_MS = 10_000;

/** For each state in which answers may be old: why, and what to do. */
const NOTICES: Readonly<Record<string, (variable: string) => string>> = {
  halted: () =>
    "is halted: a reorganisation went deeper than what its node called final. What you see is from before it. The command doctor says what to do.",
  wrong_chain: (variable) => `can't be read: its endpoints are of another chain. Correct ${variable}.`,
  unreachable: (variable) =>
    `can't be read: none of its endpoints answers. Check ${variable}; the command doctor names the fault.`,
};

/** Only operators may read the state of chains; others see it in the refusals of a chain. */
export function ChainNotice({ chain }: { readonly chain: string }) {
  const { client, scope } = useSession();
  const { value } = usePolled(
    async (signal) => (scope === "operate" ? (await client.status({ signal })).chains : []),
    POLL_MS,
    [scope],
  );
  const found = value?.find(({ name }) => name === chain);
  const notice = found && NOTICES[found.state];
  if (found === undefined || notice === undefined) return null;
  const variable = `RPC_URL_${found.name.toUpperCase().replaceAll(" ", "_")}`;
  return (
    <p class="failure" role="alert">
      {found.name} {notice(variable)}
    </p>
  );
}
