/** Requests that buttons and forms send, with the words of their state. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isRefusal, useSession } from "../state/session.ts";

/** The state of a request that a button sends: its words while it runs, and afterwards. */
function useAction(): [state: string | undefined, run: (work: () => Promise<string>) => void, isBusy: boolean] {
  const { leave } = useSession();
  const [state, setState] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const run = (work: () => Promise<string>) => {
    setBusy(true);
    work()
      .then(setState, (error: Error) => (isRefusal(error) ? leave(error.message) : setState(error.message)))
      .finally(() => setBusy(false));
  };
  return [state, run, isBusy];
}

interface ActionOptions {
  readonly name: ComponentChildren;
  /** Its name beside other buttons of this name. */
  readonly label?: string;
  /** What it does, in a sentence. */
  readonly effect?: string;
  /** True for what can't be taken back: the button says what will happen, and asks. */
  readonly isQuestioned?: boolean;
  readonly isDisabled?: boolean;
  /** Returns what to say afterwards. */
  readonly work: () => Promise<string>;
}

/** A button for one request, with the state of it. */
export function Action({ isQuestioned = false, isDisabled = false, work, ...rest }: ActionOptions) {
  const [state, run, isBusy] = useAction();
  const options = { ...rest, isDisabled: isBusy || isDisabled, onPress: () => run(work) };
  return (
    <>
      {isQuestioned ? <QuestionedButton {...options} /> : <PlainButton {...options} />}{" "}
      <span role="status">{state}</span>
    </>
  );
}

interface ButtonOptions extends Pick<ActionOptions, "name" | "label" | "effect"> {
  readonly isDisabled: boolean;
  readonly onPress: () => void;
}

const PlainButton = ({ name, label, effect, isDisabled, onPress }: ButtonOptions) => (
  <button type="button" title={effect} aria-label={label} disabled={isDisabled} onClick={onPress}>
    {name}
  </button>
);

function QuestionedButton({ onPress, ...options }: ButtonOptions) {
  const [isAsking, setAsking] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  // The pressed button is gone, and with it the focus of the keyboard.
  useEffect(() => cancel.current?.focus(), [isAsking]);
  if (!isAsking) return <PlainButton {...options} onPress={() => setAsking(true)} />;
  const { label, effect } = options;
  const confirm = () => {
    setAsking(false);
    onPress();
  };
  return (
    <span class="confirm" role="alert">
      {effect} Sure? <PlainButton {...options} label={`${label}, confirmed`} onPress={confirm} />{" "}
      <button type="button" ref={cancel} onClick={() => setAsking(false)} aria-label={`Cancel: ${label}`}>
        Cancel
      </button>
    </span>
  );
}

interface FormOptions {
  /** The text of the button. */
  readonly action: string;
  readonly isDisabled?: boolean;
  /** Returns what to say afterwards. */
  readonly work: () => string | Promise<string>;
  readonly children: ComponentChildren;
  /** Buttons beside that of the form. */
  readonly more?: ComponentChildren;
}

/** A form for one request, with the state of it. */
export function Form({ action, isDisabled = false, work, children, more }: FormOptions) {
  const [state, run, isBusy] = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => work());
  };
  return (
    <form onSubmit={submit}>
      {children}
      <button type="submit" disabled={isBusy || isDisabled}>
        {action}
      </button>
      {more}
      <span role="status">{state}</span>
    </form>
  );
}
