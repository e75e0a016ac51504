/** The contract of the styles of pools, with some random moves; `test/long` makes a thousand. */
import { holdStyles } from "../../support/prices/style-suite.ts";

holdStyles(60);
