/** What surrounds the screens of a signed-in visitor: navigation, search, and what each screen sent. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useHeading } from "./heading.ts";
import { ServiceMark } from "./mark.tsx";
import { SentRequestsLines } from "./parts/curl.tsx";
import { Screen } from "./screen.tsx";
import { useScrollMemory } from "./scroll.ts";
import { useIsOnline, useProbes } from "./state/connection.ts";
import { linkTo, usePlace } from "./state/place.ts";
import type { ScreenSession } from "./state/session.ts";

export function Frame({ session }: { readonly session: ScreenSession }) {
  const place = usePlace();
  const [first = ""] = place.path;
  const path = place.path.join("/");
  useProbes();
  const isOnline = useIsOnline();
  const { queries, sent } = session;
  useEffect(() => {
    queries.mount();
    return () => queries.unmount();
  }, [queries]);
  // Before the screen sends its first request.
  useLayoutEffect(() => {
    sent.value = new Map();
  }, [sent, path]);
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
          <ServiceMark /> <span>EVM data</span>
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
        {isOnline ? "" : "The connection to the service is lost. Trying again…"}
      </p>
      <main id="content" tabIndex={-1}>
        <Screen {...place} />
        <SentRequestsLines />
      </main>
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
    <form onSubmit={submit}>
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
