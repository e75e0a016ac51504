/**
 * Visits of a browser. Each notes whatever a page must not do: errors, requests to other origins, violations of its
 * content security policy.
 */
import type { Browser, Page } from "puppeteer-core";

export interface Visit {
  readonly page: Page;
  /** What the page must not have done so far. */
  readonly faults: readonly string[];
  /** Paths of the requests so far, with their query. */
  readonly requests: readonly string[];
}

/** Opens a tab with a storage of its own. @param origin the only one that the page may ask */
export async function visit(browser: Browser, origin: string): Promise<Visit> {
  const page = await (await browser.createBrowserContext()).newPage();
  const faults: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`uncaught: ${String(error)}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (/^(?:data|blob):/.test(url)) return;
    if (new URL(url).origin === origin) requests.push(url.slice(origin.length));
    else faults.push(`asked another origin: ${url}`);
  });
  await page.evaluateOnNewDocument(`document.addEventListener("securitypolicyviolation", (event) =>
    console.error("policy: " + event.violatedDirective + " " + event.blockedURI))`);
  await page.setViewport({ width: 1200, height: 900 });
  return { page, faults, requests };
}
