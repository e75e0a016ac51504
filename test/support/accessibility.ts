/** The accessibility checker in a page of a real browser. */
import type { Page } from "puppeteer-core";

/** Rules of WCAG 2.0 to 2.2, the size of targets among them, and what is good practice beside them. */
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** The serious and critical faults of what a page shows, with their first places. */
export async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(await Bun.file(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir)).text());
  return (await page.evaluate(`axe.run({ runOnly: ${JSON.stringify(TAGS)} }).then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).slice(0, 3).join(" ")))`)) as string[];
}
