/** The console in a browser as its tests use it: sign in, wait for words, press buttons. */
import type { Browser, Page } from "puppeteer-core";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { type Visit, visit } from "./browser.ts";
import { eventually } from "./service.ts";

export const OPERATOR_KEY = "operator-key-0123456789";

interface Opening {
  /** URL of the service, without a slash at the end. */
  readonly root: string;
  readonly key?: string;
}

/** Opens a place of the console in a tab of its own, where the gate asks for the key. */
export async function openGate(browser: Browser, place: string, root: string): Promise<Visit> {
  const visited = await visit(browser, new URL(root).origin);
  await visited.page.goto(`${root}/#${place}`);
  await visited.page.waitForSelector("#key");
  return visited;
}

export async function signIn(page: Page, key = OPERATOR_KEY): Promise<void> {
  await page.type("#key", key);
  await page.keyboard.press("Enter");
  await page.waitForSelector("header");
}

/** Opens a place of the console in a tab of its own, signed in. */
export async function openConsole(browser: Browser, place: string, { root, key }: Opening): Promise<Visit> {
  const visited = await openGate(browser, place, root);
  await signIn(visited.page, key);
  return visited;
}

/** Goes to another place of the console, as a link does. */
export const goTo = (page: Page, place: string) => page.evaluate(`location.hash = ${JSON.stringify(place)}`);

export const textOf = (page: Page, selector = "body"): Promise<string> =>
  page.evaluate(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`) as Promise<string>;

/** Waits until the text of a part has the words. Returns the text. */
export function shows(page: Page, words: string | RegExp, selector = "body"): Promise<string> {
  return eventually(`${selector} shows ${words}`, async () => {
    const text = await textOf(page, selector);
    return (typeof words === "string" ? text.includes(words) : words.test(text)) ? text : undefined;
  });
}

/** Waits until the text of a part no longer has the words. */
export function hides(page: Page, words: string, selector = "body"): Promise<true> {
  return eventually(`${selector} no longer shows ${words}`, async () =>
    (await textOf(page, selector)).includes(words) ? undefined : true,
  );
}

/** Waits until the first button with this text is enabled, and presses it once. In a closed menu, it opens the menu first. */
export function press(page: Page, text: string): Promise<true> {
  return eventually(`the button ${text} is pressed`, async () => {
    const isPressed = await page.evaluate(`(() => {
      const button = [...document.querySelectorAll("button")].find((one) => one.textContent.trim() === ${JSON.stringify(text)});
      const isEnabled = button?.disabled === false;
      if (isEnabled) button.closest("details:not([open])")?.setAttribute("open", "");
      if (isEnabled) button.click();
      return isEnabled;
    })()`);
    return isPressed === true ? true : undefined;
  });
}

/** Replaces the text of a field. */
export async function fill(page: Page, selector: string, text: string): Promise<void> {
  await page.$eval(selector, (field) => (field as unknown as { select(): void }).select());
  await page.keyboard.press("Backspace");
  await page.type(selector, text);
}

/** Moves the slider as a finger does. */
export const slideTo = (page: Page, block: number) =>
  page.evaluate(`(() => {
    const slider = document.querySelector("input[type=range]");
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, "${block}");
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  })()`);

/** The hash of the address. */
export const hashOf = (page: Page): Promise<string> => page.evaluate("location.hash") as Promise<string>;

/** A chain at mainnet's addresses with two hours of trades. The caller stops it. */
export async function startConsoleChain(): Promise<{ anvil: Anvil; market: Market }> {
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 4 * 3_600 });
  await placeMainnet(anvil);
  return { anvil, market: await seedMarket(anvil, { hours: 2 }) };
}
