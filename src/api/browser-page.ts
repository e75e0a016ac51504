/** The frame that all pages for browsers have, with the title and the mark of the service, and the types of their files. */

/** The mark of the service: lines of a log. The console also shows its picture in the page. */
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0b57c4"/><path d="M4 5h8M4 8h8M4 11h4" stroke="#fff" stroke-width="1.6" stroke-linecap="round"/><circle cx="11.4" cy="11" r="1.5" fill="#9cc4ff"/></svg>`;

interface PageParts {
  readonly title: string;
  /** Further elements of the head. */
  readonly head: string;
  readonly body: string;
}

export const pageOf = ({ title, head, body }: PageParts) => `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(SVG)}">
${head}
</head>
<body>
${body}
</body>
</html>
`;

export const HTML = "text/html; charset=utf-8";
export const CSS = "text/css; charset=utf-8";
export const SCRIPT = "text/javascript; charset=utf-8";
