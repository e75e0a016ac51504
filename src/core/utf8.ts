/**
 * Text in bytes that a contract or the author of a document wrote. One decoder for all of them, so that the
 * same bytes are the same text everywhere.
 */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Decodes UTF-8. What is no UTF-8 becomes U+FFFD, so that one wrong byte doesn't cost the rest. */
export const utf8Text = (bytes: Uint8Array): string => decoder.decode(bytes);
