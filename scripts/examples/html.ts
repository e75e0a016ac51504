/**
 * Pages from texts that an attacker may have written: token names, traits and links. Every value in an `html` template
 * is escaped, and a link is kept only if its scheme is http or https.
 */

/** Markup that may stand in a page as it is. Only `html` makes it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Html | undefined | readonly Html[];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => ENTITIES[sign] as string);

function textOf(value: Value): string {
  if (value === undefined) return "";
  if (value instanceof Html) return value.text;
  return typeof value === "object" ? value.map(({ text }) => text).join("") : escaped(String(value));
}

/** Attributes must be quoted in the template: only then the escaped text can't leave them. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(parts.map((part, at) => part + (at < values.length ? textOf(values[at]) : "")).join(""));
}

/** Returns a URL that may be a link or a picture; undefined for `javascript:` and every other scheme. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text === null || text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined;
}

/** A name is as long as its author likes. Returns its beginning. */
export const shortened = (text: string, length = 100): string =>
  text.length <= length ? text : `${text.slice(0, length).toWellFormed()}…`;

/**
 * Makes the answer of a page. Scripts and styles come from the example's own server, so that markup which got past the
 * escaping could not run.
 * @param pictures origins of pictures beside this server
 */
export function pageAnswer(page: Html, pictures: readonly string[] = [], status = 200): Response {
  const policy = [
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    `img-src ${["'self'", ...pictures].join(" ")}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return new Response(`<!doctype html>${page.text}`, {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    },
  });
}

/** Makes the answer of a script or a style sheet. */
export const fileAnswer = (text: string, type: "text/css" | "text/javascript"): Response =>
  new Response(text, { headers: { "content-type": `${type}; charset=utf-8`, "x-content-type-options": "nosniff" } });
