/** The contract of the styles of pools over a thousand random states of each. */
import { holdStyles } from "../support/prices/style-suite.ts";

holdStyles(1_000);
