/** The mark of the service, lines of a log, as the icon of its pages. */

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0b57c4"/><path d="M4 5h8M4 8h8M4 11h4" stroke="#fff" stroke-width="1.6" stroke-linecap="round"/><circle cx="11.4" cy="11" r="1.5" fill="#9cc4ff"/></svg>`;

/** The element of a page's head. The console also shows its picture in the page. */
export const ICON = `<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(SVG)}">`;
