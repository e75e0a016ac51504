/** The console: what a browser shows of this service. A client of its public API, and of nothing else. */
import type { QueryKey } from "@tanstack/query-core";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Frame } from "./frame.tsx";
import { Gate } from "./gate.tsx";
import { forget, forgetAll, onSignOutOfTabs, signOut } from "./state/kept-key.ts";
import { resumeSession, type Session, SessionContext } from "./state/session.ts";
import "./base.css";
import "./style.css";

type State =
  | { readonly is: "starting" }
  | { readonly is: "out"; readonly reason?: string | undefined }
  | { readonly is: "in"; readonly session: Session };

function Console() {
  const [state, setState] = useState<State>({ is: "starting" });
  useEffect(() => {
    resumeSession().then(
      (session) => setState(session === undefined ? { is: "out" } : { is: "in", session }),
      (error: Error) => setState({ is: "out", reason: error.message }),
    );
  }, []);
  const session = state.is === "in" ? state.session : undefined;
  useEffect(
    () =>
      onSignOutOfTabs(() => {
        forgetAll();
        session?.client.close();
        setState({ is: "out" });
      }),
    [session],
  );
  if (state.is === "starting") return <p class="starting">Connecting…</p>;
  if (state.is === "out") {
    return <Gate reason={state.reason} onSigned={(opened) => setState({ is: "in", session: opened })} />;
  }
  const reload = (...queryKey: QueryKey) => void state.session.queries.invalidateQueries({ queryKey });
  const leave = (reason?: string) => {
    if (reason === undefined) signOut();
    else forget(state.session.key);
    state.session.client.close();
    setState({ is: "out", reason });
  };
  return (
    <SessionContext.Provider value={{ ...state.session, reload, leave }}>
      <Frame session={{ ...state.session, reload, leave }} />
    </SessionContext.Provider>
  );
}

render(<Console />, document.getElementById("console") as HTMLElement);
