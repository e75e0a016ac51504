/** The heading of a screen: the name of the browser's tab, and where the focus goes after a navigation. */
import { useEffect, useLayoutEffect } from "preact/hooks";

const TITLE = "EVM data service";

/** Names the browser's tab by the heading of the screen, and moves the focus there after a navigation. */
export function useHeading(path: string): void {
  useEffect(() => {
    const content = document.getElementById("content") as HTMLElement;
    const name = () => {
      // A token's tab also names the collection, to which its screen has a link above the heading.
      const names = [...content.querySelectorAll("h1, .above")].map((one) => one.textContent?.trim() ?? "").reverse();
      const title = [...names, TITLE].filter(Boolean).join(" · ");
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
