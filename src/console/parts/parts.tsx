/** Small parts that several screens show. */
import type { ComponentChildren } from "preact";

interface PanelOptions {
  readonly title: string;
  readonly children: ComponentChildren;
}

export const Panel = ({ title, children }: PanelOptions) => (
  <article>
    <h2>{title}</h2>
    {children}
  </article>
);

/** A line that says how things are, also to a screen reader when it changes. */
export const StatusLine = ({ children }: Pick<PanelOptions, "children">) => (
  <p role="status" class="quiet">
    {children}
  </p>
);

interface FactOptions {
  readonly name: string;
  /** True for a long text. */
  readonly isLong?: boolean;
  readonly children: ComponentChildren;
}

/** A fact with its name. */
export const Fact = ({ name, isLong = false, children }: FactOptions) => (
  <div class={isLong ? "long-fact" : undefined}>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** A bar that fills up. @param percent from 0 to 100; null while it is unknown */
export const Bar = ({ percent, label }: { readonly percent: number | null; readonly label: string }) => (
  <div
    role="progressbar"
    aria-label={label}
    aria-valuemin={0}
    aria-valuemax={100}
    aria-valuenow={percent === null ? undefined : Math.floor(percent)}
    style={{ "--share": `${percent ?? 0}%` }}
  >
    {percent === null ? "…" : `${Math.floor(percent)} %`}
  </div>
);

interface MoreOptions {
  readonly name?: string;
  readonly isBusy?: boolean;
  /** Reads on; undefined at the end of the list. */
  readonly more: (() => void) | undefined;
}

/** The button below a list that goes on. */
export const More = ({ name = "More", isBusy = false, more }: MoreOptions) =>
  more === undefined ? null : (
    <button type="button" disabled={isBusy} onClick={more}>
      {name}
    </button>
  );
