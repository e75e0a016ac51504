/** Measures how often the event loop was free during some work. */

/** Returns the result of the work, and the number of event-loop turns that passed during it. */
export async function turnsDuring<T>(work: () => Promise<T>): Promise<{ value: T; turns: number }> {
  let [turns, isOver] = [0, false];
  const turn = () => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    return { value: await work(), turns };
  } finally {
    isOver = true;
  }
}
