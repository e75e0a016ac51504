/** The messages of a collection over the socket. */
import { useEffect, useRef } from "preact/hooks";
import type { FeedMessage } from "../../client/index.ts";
import { useIsOnline } from "./connection.ts";
import type { Where } from "./place.ts";
import { isRefusal, useSession } from "./session.ts";

/** Hears the messages of a collection while the screen is open. It gets indexed if it was unknown. */
export function useMessages({ chain, address }: Where, onMessage: (message: FeedMessage) => void): void {
  const { client, leave } = useSession();
  const isOnline = useIsOnline();
  const hear = useRef(onMessage);
  hear.current = onMessage;
  const since = useRef<string | number>(undefined);
  useEffect(() => {
    // The client waits ever longer before it connects again. A service that is back is subscribed to at once.
    if (!isOnline) return;
    const from = since.current === undefined ? {} : { since: since.current };
    const subscription = client.subscribe(address, { chain, ...from });
    const read = async () => {
      for await (const message of subscription) hear.current(message);
    };
    read().catch((error: Error) => {
      if (isRefusal(error)) leave(error.message);
    });
    return () => {
      since.current = subscription.since;
      subscription.close();
    };
  }, [client, chain, address, isOnline]);
}
