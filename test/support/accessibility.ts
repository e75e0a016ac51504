/** The accessibility checker in a page of a real browser. */
import type { Page } from "puppeteer-core";

/** The serious and critical faults of what a page shows, with their first places. */
export async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(await Bun.file(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir)).text());
  return (await page.evaluate(`axe.run().then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).slice(0, 3).join(" ")))`)) as string[];
}
