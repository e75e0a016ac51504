/** The forms in which servers quote what they received. */
const bytesOf = (text: string): number[] => [...Buffer.from(text)];
const hexOf = (byte: number): string => byte.toString(16).padStart(2, "0");
const everyByte = (text: string): string =>
  bytesOf(text)
    .map((byte) => `%${hexOf(byte)}`)
    .join("");

export const ENCODINGS: Readonly<Record<string, (text: string) => string>> = {
  plain: (text) => text,
  "upper case": (text) => text.toUpperCase(),
  "escaped for a URL": encodeURIComponent,
  "escaped in lower case": (text) => encodeURIComponent(text).replace(/%../g, (code) => code.toLowerCase()),
  "escaped in each byte": everyByte,
  "escaped twice": (text) => encodeURIComponent(encodeURIComponent(text)),
  "escaped in each byte, thrice": (text) => encodeURIComponent(encodeURIComponent(everyByte(text))),
  "of a form": (text) => encodeURIComponent(text).replaceAll("%20", "+"),
  JSON: (text) => JSON.stringify(text).slice(1, -1),
  "JSON in JSON": (text) => JSON.stringify(JSON.stringify(text).slice(1, -1)).slice(1, -1),
  "JSON with slashes escaped": (text) => JSON.stringify(text).slice(1, -1).replaceAll("/", "\\/"),
  "JSON in ASCII": (text) =>
    [...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  HTML: (text) => Bun.escapeHTML(text),
  "HTML with numbers": (text) => [...text].map((one) => `&#${one.codePointAt(0)};`).join(""),
  hex: (text) => bytesOf(text).map(hexOf).join(""),
  "hex in upper case": (text) => bytesOf(text).map(hexOf).join("").toUpperCase(),
  "hex with colons": (text) => bytesOf(text).map(hexOf).join(":"),
  "escapes of a program": (text) =>
    bytesOf(text)
      .map((byte) => `\\x${hexOf(byte)}`)
      .join(""),
  base64: (text) => Buffer.from(text).toString("base64"),
  "base64 without padding": (text) => Buffer.from(text).toString("base64").replaceAll("=", ""),
  base64url: (text) => Buffer.from(text).toString("base64url"),
  "base64 in a URL": (text) => encodeURIComponent(Buffer.from(text).toString("base64")),
};
