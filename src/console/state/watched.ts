/** A value outside the tree of components, which is drawn anew when it changes. */
import { useEffect, useState } from "preact/hooks";

export class WatchedValue<T> {
  #value: T;
  readonly #changes = new EventTarget();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set value(next: T) {
    this.#value = next;
    this.#changes.dispatchEvent(new Event("change"));
  }

  /** Calls back after each change. Returns the function that ends it. */
  listen(listener: () => void): () => void {
    this.#changes.addEventListener("change", listener);
    return () => this.#changes.removeEventListener("change", listener);
  }
}

export function useWatched<T>(watched: WatchedValue<T>): T {
  const [value, setValue] = useState(watched.value);
  useEffect(() => {
    // The value may have changed after the first drawing.
    const changed = () => setValue(() => watched.value);
    changed();
    return watched.listen(changed);
  }, [watched]);
  return value;
}
