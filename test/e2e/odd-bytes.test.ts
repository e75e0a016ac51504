/**
 * Bytes that are no UTF-8 in what contracts and documents say, by every road: names, token URIs, documents inside and
 * behind a URI, in single calls and through Multicall3. One wrong byte is replaced and costs nothing else.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { MULTICALL3 } from "../../src/chains/chains.ts";
import { type RecordingWire, recordingWire } from "../support/metadata/wire.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const PUBLIC = "93.184.215.14";
/** A document whose text has a character in UTF-8 and a byte that is none. */
const DOCUMENT = Buffer.concat([Buffer.from('{"name":"é'), Buffer.from([0xff]), Buffer.from('!"}')]);
const ESCAPED = [...DOCUMENT].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const withByte = (before: string, after: string): Buffer =>
  Buffer.concat([Buffer.from(before), Buffer.from([0xff]), Buffer.from(after)]);

/** Token URIs by id, the URI that is shown, and the name in the document. */
const URIS: readonly [uri: Buffer, shown: string, name: string][] = [
  [withByte('data:application/json,{"name":"A', 'B"}'), 'data:application/json,{"name":"A\ufffdB"}', "A\ufffdB"],
  [withByte('{"name":"A', 'B"}'), '{"name":"A\ufffdB"}', "A\ufffdB"],
  ...[
    `data:application/json;base64,${DOCUMENT.toString("base64")}`,
    `data:application/json,${ESCAPED}`,
    `data%3aapplication/json,${ESCAPED.replaceAll("%", "%25")}`,
    "https://content.example/plain.json",
  ].map((uri): [Buffer, string, string] => [Buffer.from(uri), uri, "é\ufffd!"]),
  [withByte("https://content.example/", ".json"), "https://content.example/\ufffd.json", "é\ufffd!"],
];

describe.each([
  ["in single calls", false],
  ["through Multicall3", true],
])("a byte that is no UTF-8, %s", (_how, hasMulticall) => {
  let anvil: Anvil;
  let web: ReturnType<typeof Bun.serve>;
  let wire: RecordingWire;
  let service: TestService;
  let nft: Deployed;

  beforeAll(async () => {
    web = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(DOCUMENT) });
    wire = recordingWire({ names: { "content.example": [PUBLIC] }, ports: { [PUBLIC]: web.port as number } });
    anvil = await startAnvil();
    const { deployedBytecode } = await contractArtifact("Multicall");
    if (hasMulticall) await placeCode(anvil, MULTICALL3, deployedBytecode);
    nft = await deploy(anvil, await contractArtifact("RenamedNft"));
    await transact(anvil, nft.contract, "rename", ["0x41ff42", "0xff", false]);
    await transact(anvil, nft.contract, "setContractURI", [withByte('data:application/json,{"description":"A', '"}')]);
    for (const [id, [uri]] of URIS.entries()) {
      await transact(anvil, nft.contract, "mintWithURI", [anvil.accounts[1], id, uri]);
    }
    service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), metadataWire: wire });
  }, 300_000);

  afterAll(async () => {
    await service?.stop();
    await anvil?.stop();
    await web?.stop(true);
  });

  test("is replaced in names, symbols, URIs and documents, and costs no metadata", async () => {
    const rows = await eventually("all tokens have metadata", async () => {
      const { body } = await synced(service, nft.address, 0, "&normalizeMetadata=true");
      const complete = body.result.every((row: Body) => row.metadata !== null);
      return body.result.length === URIS.length && complete ? body.result : undefined;
    });
    expect(rows.map((row: Body) => [row.token_uri, row.normalized_metadata.name])).toEqual(
      URIS.map(([, shown, name]) => [shown, name]),
    );
    expect(rows[0]).toMatchObject({ name: "A\ufffdB", symbol: "\ufffd" });
    const { description } = await eventually("the document about the collection is read", async () => {
      const { body } = await service.get(`/api/collections/eth/${nft.address}`);
      return body.description === null ? undefined : body;
    });
    expect(description).toBe("A\ufffd");
  });
});
