/** Copying: a button that copies a text, and a line for a shell with one. */
import { useState } from "preact/hooks";

export function CopyButton({ value }: { readonly value: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class={isCopied ? "copy done" : "copy"}
      title={isCopied ? "Copied" : "Copy"}
      aria-label={isCopied ? "Copied" : `Copy ${value}`}
      onClick={() => copy(value).then(() => setCopied(true))}
      onBlur={() => setCopied(false)}
    />
  );
}

/** A line for a shell, with a button that copies it. */
export const ShellLine = ({ line }: { readonly line: string }) => (
  <span class="shell-line">
    <code>{line}</code> <CopyButton value={line} />
  </span>
);

/** Copies a text. A page over http from another machine has no clipboard, and copies a selection instead. */
async function copy(text: string): Promise<void> {
  try {
    return await navigator.clipboard.writeText(text);
  } catch {
    // The selection does it.
  }
  const focused = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}
