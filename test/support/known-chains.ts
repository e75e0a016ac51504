/** The built-in chains, as a process without chains of its operator knows them. */
import { Chains } from "../../src/chains/chains.ts";

export const KNOWN = new Chains();
