/** The console: what a browser shows of this service. A client of its public API, and of nothing else. */
import { render } from "preact";
import { App } from "./app.tsx";
import "./style.css";

render(<App />, document.getElementById("console") as HTMLElement);
