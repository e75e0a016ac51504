/**
 * A process that is an S3 server: `s3rver` with a bucket in a folder. Arguments: the folder and the bucket. Prints its port. It makes
 * the tokens of its lists with DES, which current runtimes no longer have, so it gets another cipher in its place.
 */
import crypto from "node:crypto";

const [folder = "", bucket = ""] = process.argv.slice(2);

/** The cipher of as many bytes as DES has is gone. AES takes twice as many, so key and start are doubled. */
const twice = (bytes: crypto.BinaryLike) => Buffer.concat([Buffer.from(bytes as Buffer), Buffer.from(bytes as Buffer)]);
const { createCipheriv, createDecipheriv } = crypto;
const inPlaceOfDes =
  (make: typeof createCipheriv | typeof createDecipheriv) =>
  (name: string, key: Buffer, start: Buffer): unknown =>
    name === "des" ? make("aes-128-cbc", twice(key), twice(start)) : make(name, key, start);
Object.assign(crypto, {
  createCipheriv: inPlaceOfDes(createCipheriv),
  createDecipheriv: inPlaceOfDes(createDecipheriv),
});

const { default: S3rver } = await import("s3rver");
const server = new S3rver({
  ...{ port: 0, address: "127.0.0.1", silent: true, directory: folder },
  configureBuckets: [{ name: bucket }],
});
const { port } = await server.run();
process.stdout.write(`${port}\n`);
