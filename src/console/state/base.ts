/** Where the service is. */

/** Base URL of the service, with a slash at the end. The script is at `console/app.js` below it, on any host and path. */
export const BASE = new URL("..", import.meta.url).href;

/** The words by which the service's program was started, for commands that the page shows. */
export const SERVICE_PROGRAM = document.getElementById("console")?.dataset["program"] ?? "bun run cli";
