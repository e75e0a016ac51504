/** Hashes of so many bytes 0xab, around the block of 136 bytes. Two other implementations gave the same. */
import { expect, test } from "bun:test";
import { keccak256 } from "ethers";
import { keccakOf } from "../../src/core/keccak.ts";

const HASHES: readonly (readonly [number, string])[] = [
  [0, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"],
  [1, "468fc9c005382579139846222b7b0aebc9182ba073b2455938a86d9753bfb078"],
  [135, "932fedc0e854cc4d32eec69e896c7449570052b3aaceacff7b13745325e4cf47"],
  [136, "302db73a4c8cc8ecc9004fec3a6525d9d6a2dd4b098b1bf62d1b897acff18c9d"],
  [137, "0235d14cb2563be9d300a26aa4dd02e37e51b802b1b204691db2de6a329d7948"],
  [272, "0245c297e7ae739cbe32c757a55bdb3064c9e0fdf25941d9496ac21e5efeed35"],
  [600, "e3d474cd126558b49d584d22c1a69b88013b5df3e77ce7d0ba468ad2ff74feb6"],
];

for (const [length, hash] of HASHES) {
  test(`of ${length} bytes`, () => {
    const bytes = `0x${"ab".repeat(length)}`;
    expect(keccakOf(bytes)).toBe(`0x${hash}` as never);
    expect(keccak256(bytes)).toBe(`0x${hash}`);
  });
}
