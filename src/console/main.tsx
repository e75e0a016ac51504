/** The console: what a browser shows of this service. A client of its public API, and of nothing else. */
import { render } from "preact";
import "./style.css";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CollectionScreen } from "./collection.tsx";
import { type Place, ReturnsContext, useConnection, usePlace } from "./hooks.ts";
import { OperateScreen } from "./operate.tsx";
import { OverviewScreen } from "./overview.tsx";
import { isAddress, linkTo, plain } from "./parts.tsx";
import { PriceScreen } from "./price.tsx";
import { SearchScreen } from "./search.tsx";
import {
  BASE,
  forget,
  forgetAll,
  onKeyOfTabs,
  onSignOutOfTabs,
  openSession,
  resumeSession,
  type Session,
  SessionContext,
  type Signed,
  signIn,
  signOut,
} from "./session.ts";
import { TokenScreen } from "./token.tsx";

type State =
  | { readonly is: "starting" }
  | { readonly is: "out"; readonly reason?: string | undefined }
  | { readonly is: "in"; readonly session: Session };

function Console() {
  const [state, setState] = useState<State>({ is: "starting" });
  useEffect(() => {
    resumeSession().then(
      (session) => setState(session === undefined ? { is: "out" } : { is: "in", session }),
      (error: Error) => setState({ is: "out", reason: error.message }),
    );
  }, []);
  const session = state.is === "in" ? state.session : undefined;
  useEffect(
    () =>
      onSignOutOfTabs(() => {
        forgetAll();
        session?.client.close();
        setState({ is: "out" });
      }),
    [session],
  );
  if (state.is === "starting") return <p class="starting">Connecting…</p>;
  if (state.is === "out") {
    return <Gate reason={state.reason} onSigned={(opened) => setState({ is: "in", session: opened })} />;
  }
  const leave = (reason?: string) => {
    if (reason === undefined) signOut();
    else forget(state.session.key);
    state.session.client.close();
    setState({ is: "out", reason });
  };
  return (
    <SessionContext.Provider value={{ ...state.session, leave }}>
      <Frame session={{ ...state.session, leave }} />
    </SessionContext.Provider>
  );
}

/** The picture of the page's icon. */
const Mark = () => <img class="mark" src={document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href} alt="" />;

interface GateOptions {
  /** Why the visitor is here; undefined at first. */
  readonly reason: string | undefined;
  readonly onSigned: (session: Session) => void;
}

/** What a visitor without a key sees. Nothing here tells anything about the data. */
function Gate({ reason, onSigned }: GateOptions) {
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
        <Mark /> EVM data service
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
        <code>bun run cli keys add &lt;name&gt;</code>. Without remembering, the key stays in the tabs of this service
        until the last of them is closed. The API is described at <a href={`${BASE}swagger`}>/swagger</a>.
      </p>
    </main>
  );
}

function Frame({ session }: { readonly session: Signed }) {
  const place = usePlace();
  const [first = ""] = place.path;
  const { isLost, returns } = useConnection();
  const path = place.path.join("/");
  useHeading(path);
  useScrollMemory(path);
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => setOpen(false), [path]);
  const links = [
    { href: "#/", name: "Overview", isHere: first === "" || first === "nft" },
    { href: "#/price", name: "Prices", isHere: first === "price" },
    ...(session.scope === "operate" ? [{ href: "#/operate", name: "Operate", isHere: first === "operate" }] : []),
  ];
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("content")?.focus()}>
        Skip to the content
      </button>
      <header class={isOpen ? "open" : ""}>
        <a class="brand" href="#/" aria-label="EVM data">
          <Mark /> <span>EVM data</span>
        </a>
        <nav aria-label="Screens">
          {links.map(({ href, name, isHere }) => (
            <a key={href} href={href} {...(isHere ? { "aria-current": "page" as const } : {})}>
              {name}
            </a>
          ))}
        </nav>
        <SearchBox />
        <button type="button" class="quiet leave" onClick={() => session.leave()}>
          Sign out
        </button>
        <button type="button" class="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
      </header>
      <p class="connection" role="status">
        {isLost ? "The connection to the service is lost. Trying again…" : ""}
      </p>
      <main id="content" tabIndex={-1}>
        <ReturnsContext.Provider value={returns}>
          <Screen place={place} />
        </ReturnsContext.Provider>
      </main>
    </>
  );
}

const TITLE = "EVM data service";

/** Names the browser's tab by the heading of the screen, and moves the focus there after a navigation. */
function useHeading(path: string): void {
  useEffect(() => {
    const content = document.getElementById("content") as HTMLElement;
    const name = () => {
      const heading = content.querySelector("h1")?.textContent?.trim() ?? "";
      const title = heading === "" ? TITLE : `${heading} · ${TITLE}`;
      if (document.title !== title) document.title = title;
    };
    name();
    // A heading changes when the answer of the service comes.
    const observer = new MutationObserver(name);
    observer.observe(content, { childList: true, subtree: true, characterData: true });
    return () => {
      observer.disconnect();
      document.title = TITLE;
    };
  }, []);
  // Before the first drawing, so that the focus does not leave a field in which a visitor has begun to type.
  useLayoutEffect(() => {
    const content = document.getElementById("content");
    const heading = content?.querySelector("h1") ?? content;
    if (heading === null || heading === undefined) return;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }, [path]);
}

// Where a screen is scrolled to: a new one to its top, and one that Back finds to where it was. Browsers restore that only
// if the page has its height at once, and a gallery has it after the first answer.

/** How far each entry of the tab's history is scrolled, by the name that its state has. */
const heights = new Map<string, number>();
/** The name of the entry that is shown. */
let entry = "";
/** Where the screen is to be scrolled once it is tall enough; undefined when that is done. */
let wanted: number | undefined;

/** Names the entry that the browser shows now. A link makes one without a name. */
function enter(): void {
  const { entry: name } = (history.state ?? {}) as { readonly entry?: string };
  wanted = name === undefined ? undefined : heights.get(name);
  entry = name ?? `${performance.timeOrigin + performance.now()}`;
  if (name !== undefined) return;
  history.replaceState({ entry }, "");
  // A change of the query replaces the entry, and scrolls nothing.
  heights.set(entry, scrollY);
}

/** Scrolls to the wanted place if the page reaches there. */
function restore(): void {
  if (wanted === undefined || document.documentElement.scrollHeight - innerHeight < wanted) return;
  scrollTo(0, wanted);
  wanted = undefined;
}

/** The visitor decides from now on. */
const letGo = () => {
  wanted = undefined;
};
const INPUTS = ["wheel", "touchstart", "keydown", "pointerdown"] as const;

/** Keeps the scrolled place of each entry of the history. @param path of the screen that is shown */
function useScrollMemory(path: string): void {
  useEffect(() => {
    history.scrollRestoration = "manual";
    enter();
    const note = () => wanted === undefined && heights.set(entry, scrollY);
    const observer = new ResizeObserver(restore);
    observer.observe(document.body);
    addEventListener("popstate", enter);
    addEventListener("scroll", note, { passive: true });
    for (const input of INPUTS) addEventListener(input, letGo, { passive: true });
    return () => {
      observer.disconnect();
      removeEventListener("popstate", enter);
      removeEventListener("scroll", note);
      for (const input of INPUTS) removeEventListener(input, letGo);
    };
  }, []);
  useLayoutEffect(() => {
    if (wanted === undefined) scrollTo(0, 0);
    else restore();
  }, [path]);
}

function Screen({ place }: { readonly place: Place }) {
  const [kind = "", chain = "", address = "", id] = place.path;
  const key = place.path.join("/");
  if (kind === "nft" && place.path.length <= 4) {
    if (!isAddress(address)) return <Unknown reason={`${plain(address) || "It"} is no address of a contract.`} />;
    if (id === undefined) return <CollectionScreen key={key} chain={chain} address={address.toLowerCase()} />;
    return <TokenScreen key={key} chain={chain} address={address.toLowerCase()} id={id} />;
  }
  if (kind === "price") return <PriceScreen key={key} chain={chain || undefined} address={address.toLowerCase()} />;
  if (kind === "operate") return <OperateScreen />;
  if (kind === "search") return <SearchScreen key={key} text={chain} />;
  if (kind === "") return <OverviewScreen offers={place.query.getAll("try")} />;
  return <Unknown reason={`The console has no screen "${plain(key)}".`} />;
}

/** The screen of an address that leads nowhere. */
function Unknown({ reason }: { readonly reason: string }) {
  return (
    <>
      <h1>This page does not exist</h1>
      <p>{reason}</p>
      <p>
        An address of a contract has 0x and 40 hexadecimal digits. <a href="#/">Go to the overview</a>, or search above.
      </p>
    </>
  );
}

function SearchBox() {
  const input = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const text = input.current?.value.trim() ?? "";
    if (text !== "") location.hash = linkTo.search(text);
  };
  return (
    <form class="search" onSubmit={submit}>
      <input
        ref={input}
        type="search"
        aria-label="Contract, token, name or symbol"
        placeholder="Address, name or symbol"
        enterkeyhint="search"
      />
      <button type="submit">Search</button>
    </form>
  );
}

render(<Console />, document.getElementById("console") as HTMLElement);
