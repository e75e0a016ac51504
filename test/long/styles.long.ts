/** The contract of the styles of pools over many random states of each. `STYLE_MOVES=1000` takes ten minutes. */
import { holdStyles } from "../support/prices/style-suite.ts";

holdStyles(Number(process.env["STYLE_MOVES"] ?? 200));
