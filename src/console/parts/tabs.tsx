/** Tabs after the pattern of ARIA: one stop for the Tab key, and arrow keys, Home and End between the tabs. */
import type { ComponentChildren } from "preact";

interface TabsOptions<Name extends string> {
  readonly label: string;
  readonly names: readonly Name[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
  /** The content of the chosen tab. */
  readonly children: ComponentChildren;
}

const PANEL = "tab-panel";
const idOf = (name: string): string => `tab-${name.toLowerCase()}`;

export function Tabs<Name extends string>({ label, names, chosen, onChoose, children }: TabsOptions<Name>) {
  const move = (event: KeyboardEvent) => {
    const next = nextTab(event.key, names.indexOf(chosen), names.length);
    const name = next === undefined ? undefined : names[next];
    if (name === undefined) return;
    event.preventDefault();
    onChoose(name);
    document.getElementById(idOf(name))?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {names.map((name) => (
          <button
            key={name}
            id={idOf(name)}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls={PANEL}
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => onChoose(name)}
          >
            {name}
          </button>
        ))}
      </div>
      <div id={PANEL} role="tabpanel" aria-labelledby={idOf(chosen)}>
        {children}
      </div>
    </>
  );
}

/** The tab that a key leads to; undefined for other keys. */
function nextTab(key: string, at: number, count: number): number | undefined {
  if (key === "ArrowRight") return (at + 1) % count;
  if (key === "ArrowLeft") return (at + count - 1) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : undefined;
}
