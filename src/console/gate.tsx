/** What a visitor without a key sees. Nothing here tells anything about the data. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ServiceMark } from "./mark.tsx";
import { BASE, SERVICE_PROGRAM } from "./state/base.ts";
import { onKeyOfTabs } from "./state/kept-key.ts";
import { openSession, type Session, signIn } from "./state/session.ts";

interface GateOptions {
  /** Why the visitor is here; undefined at first. */
  readonly reason: string | undefined;
  readonly onSigned: (session: Session) => void;
}

export function Gate({ reason, onSigned }: GateOptions) {
  const [error, setError] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const remember = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  // The gate stays if the other tab's key is refused meanwhile.
  useEffect(() => onKeyOfTabs((key) => void openSession(key).then(onSigned, () => undefined)), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const key = input.current?.value.trim() ?? "";
    if (key === "") return setError("A key is needed.");
    setBusy(true);
    signIn(key, remember.current?.checked === true)
      .then(onSigned, (failure: Error) => setError(failure.message))
      .finally(() => setBusy(false));
  };
  return (
    <main class="gate">
      <h1>
        <ServiceMark /> EVM data service
      </h1>
      <p>
        Which NFTs are in a contract, with owners and metadata, and what an ERC-20 token is worth, now or at a block.
        This service answers both from an EVM node, and keeps all that it has read.
      </p>
      <form onSubmit={submit}>
        <label for="key">API key</label>
        <input id="key" ref={input} type="password" autocomplete="off" spellcheck={false} />
        <button type="submit" disabled={isBusy}>
          Sign in
        </button>
        <label>
          <input ref={remember} type="checkbox" /> Remember on this device: this browser keeps the key until you sign
          out or it is revoked, and every person with access to this browser can use it.
        </label>
      </form>
      {error === undefined ? null : (
        <p class="failure" role="alert">
          {error}
        </p>
      )}
      <p class="quiet">
        The first start of the service shows a key. An operator makes more with{" "}
        <code>{SERVICE_PROGRAM} keys add &lt;name&gt;</code>. Without remembering, the key stays in the tabs of this
        service until the last of them is closed. The API is described at <a href={`${BASE}swagger`}>/swagger</a>.
      </p>
    </main>
  );
}
