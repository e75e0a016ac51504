/**
 * Does what people come to the console for, in a real browser over the demo's chain, and prints how many actions and how many
 * milliseconds each task takes: `bun scripts/console-tasks.ts`. An action is a text that is entered, a choice or a click. Each
 * task begins where its visitor is, and ends when the answer stands on the page.
 */
import type { Page } from "puppeteer-core";
import { signInToStage, startStage } from "./console-shots/stage.ts";

const { anvil, market, plain, multi, browser, root, stop } = await startStage();

interface Task {
  readonly name: string;
  /** Where the visitor is at first, and the element that is there once the page is complete. */
  readonly place: string;
  readonly ready: string;
  readonly most: number;
  readonly act: (hand: Hand) => Promise<void>;
  readonly answer: RegExp;
}

/** The hand of a visitor, which counts what it does. */
class Hand {
  actions = 0;
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** Enters a text, and ends it with the Enter key. */
  async enter(selector: string, text: string): Promise<void> {
    this.actions++;
    await this.#page.type(selector, text);
    await this.#page.keyboard.press("Enter");
  }

  async click(selector: string): Promise<void> {
    this.actions++;
    await this.#page.locator(selector).click();
  }
}

/** A block of some hours ago that is the last of its second, with its time as a visitor enters it. */
async function pastBlock(): Promise<{ readonly block: number; readonly time: string }> {
  const timeOf = async (block: number) => {
    const header = await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false]);
    return Number((header as { readonly timestamp: string }).timestamp);
  };
  let block = Number(await anvil.send("eth_blockNumber")) - 1;
  while ((await timeOf(block)) === (await timeOf(block + 1))) block--;
  return { block, time: new Date((await timeOf(block)) * 1_000).toISOString().slice(0, 19) };
}

async function tasks(): Promise<readonly Task[]> {
  const { block, time } = await pastBlock();
  const gallery = (address: string) => `/nft/eth/${address}`;
  const price = `/price/eth/${market.demo.address}`;
  return [
    {
      ...{ name: "a token by its id, on its collection", place: gallery(plain.address), ready: ".gallery a", most: 2 },
      ...{ act: (hand) => hand.enter("#token-id", "123"), answer: /Edition 123/ },
    },
    {
      ...{ name: "a token by its id, from the overview", place: "/", ready: "tbody a", most: 2 },
      act: (hand) => hand.enter("input[type=search]", `eth:${plain.address}/123`),
      answer: /Edition 123/,
    },
    {
      ...{ name: "who holds id 7 of this ERC-1155", place: gallery(multi.address), ready: ".gallery a", most: 2 },
      ...{ act: (hand) => hand.enter("#token-id", "7"), answer: /\d holders?\b/ },
    },
    {
      ...{ name: "what a token was worth at a time", place: price, ready: ".amount", most: 2 },
      ...{ act: (hand) => hand.enter("#at", time), answer: new RegExp(`Block ${block.toLocaleString("en-US")}, `) },
    },
    {
      ...{ name: "a pasted link of OpenSea", place: "/", ready: "tbody a", most: 1 },
      act: (hand) => hand.enter("input[type=search]", `https://opensea.io/item/ethereum/${plain.address}/123`),
      answer: /Edition 123/,
    },
    {
      ...{ name: "a pasted link of Etherscan to a token", place: "/", ready: "tbody a", most: 2 },
      act: async (hand) => {
        await hand.enter("input[type=search]", `https://etherscan.io/token/${market.demo.address}`);
        await hand.click("main a[href^='#/price/']");
      },
      answer: /exactly \$/,
    },
  ];
}

/** Does a task from its beginning. @returns the row of the table */
async function measured(page: Page, { name, place, ready, most, act, answer }: Task): Promise<string> {
  await page.evaluate(`location.hash = ${JSON.stringify(place)}`);
  await page.reload();
  await page.waitForSelector(ready);
  const hand = new Hand(page);
  const began = performance.now();
  await act(hand);
  await page.waitForFunction(`${answer}.test(document.querySelector("main").innerText)`);
  const ms = Math.round(performance.now() - began);
  if (hand.actions > most) throw new Error(`${name}: ${hand.actions} actions, at most ${most} are meant`);
  return `| ${name} | ${hand.actions} | ${ms} |`;
}

try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1_200, height: 860 });
  await page.goto(root);
  await signInToStage(page);
  process.stdout.write("| Task | Actions | ms |\n| ---- | ------: | -: |\n");
  for (const task of await tasks()) process.stdout.write(`${await measured(page, task)}\n`);
} finally {
  await stop();
}
process.exit();
