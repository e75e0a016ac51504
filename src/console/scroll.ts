/**
 * Where a screen is scrolled to: a new one to its top, and one that Back finds to where it was. Browsers restore that only if
 * the page has its height at once, and a gallery has it after the first answer.
 */
import { useEffect, useLayoutEffect } from "preact/hooks";

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
export function useScrollMemory(path: string): void {
  useEffect(() => {
    history.scrollRestoration = "manual";
    enter();
    const note = () => wanted === undefined && heights.set(entry, scrollY);
    const observer = new ResizeObserver(restore);
    observer.observe(document.body);
    const ended = new AbortController();
    const options = { passive: true, signal: ended.signal };
    addEventListener("popstate", enter, options);
    addEventListener("scroll", note, options);
    for (const input of INPUTS) addEventListener(input, letGo, options);
    return () => {
      observer.disconnect();
      ended.abort();
    };
  }, []);
  useLayoutEffect(() => {
    if (wanted === undefined) scrollTo(0, 0);
    else restore();
  }, [path]);
}
