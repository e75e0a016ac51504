/** Which proxy a request goes through, as the environment's variables say. */
import { describe, expect, test } from "bun:test";
import { ConfigError, proxiesOf } from "../../src/config.ts";
import { proxyFor } from "../../src/core/proxies.ts";

const HTTP = "http://plain.proxy:3128/";
const HTTPS = "http://secure.proxy:3128/";
const way = (url: string, NO_PROXY = "") =>
  proxyFor(proxiesOf({ HTTP_PROXY: HTTP, HTTPS_PROXY: HTTPS, NO_PROXY }), url);

describe("a proxy", () => {
  test.each([
    ["http://node.example/", HTTP],
    ["ws://node.example/", HTTP],
    ["https://node.example/", HTTPS],
    ["wss://node.example:8546/", HTTPS],
    ["http://10.0.0.7/", HTTP],
  ])("is chosen by the scheme of %s", (url, proxy) => {
    expect(way(url)).toBe(proxy);
  });

  test.each([
    "http://localhost:8545/",
    "http://a.localhost/",
    "ws://127.0.0.1:8546/",
    "http://127.3.2.1/",
    "http://[::1]:3000/",
  ])("is not used for this machine: %s", (url) => {
    expect(way(url)).toBeUndefined();
  });

  test.each<[string, string, boolean]>([
    ["*", "https://node.example/", true],
    ["node.example", "https://node.example/", true],
    ["node.example", "https://a.node.example/", true],
    ["NODE.example", "https://Node.Example./", true],
    [".node.example", "https://a.node.example/", true],
    ["*.node.example", "https://a.node.example/", true],
    ["node.example", "https://othernode.example/", false],
    ["other.example, node.example", "https://node.example/", true],
    ["node.example:8545", "https://node.example:8545/", true],
    ["node.example:443", "https://node.example/", true],
    ["node.example:8545", "https://node.example/", false],
    ["10.0.0.0/8", "http://10.1.2.3:8545/", true],
    ["10.0.0.0/8", "http://11.1.2.3:8545/", false],
    ["10.1.2.3", "http://10.1.2.3/", true],
    ["fd00::/8", "http://[fd00::1]/", true],
    ["[fd00::1]:8545", "http://[fd00::1]:8545/", true],
    ["", "https://node.example/", false],
  ])("is told by NO_PROXY=%s for %s: direct %p", (entry, url, isDirect) => {
    expect(way(url, entry) === undefined).toBe(isDirect);
  });

  test("may be given in lower case, which comes first, and without a scheme", () => {
    expect(proxiesOf({ http_proxy: "a.example:3128", HTTP_PROXY: HTTP, no_proxy: "b.example" })).toEqual({
      http: "http://a.example:3128/",
      https: undefined,
      direct: ["b.example"],
    });
  });

  test.each(["socks5://a.example:1080", "nonsense", "http://a.example/path"])(
    "is refused without its value if it is none: %s",
    (HTTPS_PROXY) => {
      expect(() => proxiesOf({ HTTPS_PROXY })).toThrow(ConfigError);
      expect(() => proxiesOf({ HTTPS_PROXY })).not.toThrow(HTTPS_PROXY);
    },
  );
});
