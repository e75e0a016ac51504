/** Links that a token's metadata names. Strangers wrote them: nothing is loaded from their hosts before a visitor asks. */
import { useState } from "preact/hooks";
import { plain } from "../parts/format.ts";

/** Public gateways of addresses that name a content in place of a host. */
const GATEWAYS: Readonly<Record<string, string>> = {
  "ipfs:": "https://ipfs.io/ipfs/",
  "ar:": "https://arweave.net/",
};

/** The URL as a browser opens it; undefined if no browser does. */
function openable(url: string): URL | undefined {
  const [, scheme = "", content = ""] = /^(\w+:)\/\/(?:ipfs\/)?(.*)$/i.exec(url) ?? [];
  const gateway = GATEWAYS[scheme.toLowerCase()];
  const parsed = URL.parse(gateway === undefined ? url : `${gateway}${content}`);
  return parsed !== null && /^(?:https?|data):$/.test(parsed.protocol) ? parsed : undefined;
}

/** A link to another site, if it is one that a browser opens; else its text. */
export function OutLink({ url }: { readonly url: string }) {
  const target = openable(url);
  if (target === undefined) return <code>{plain(url, 200)}</code>;
  if (target.protocol === "data:") return <>inside the metadata</>;
  return (
    <a href={target.href} target="_blank" rel="noreferrer noopener nofollow" title={url}>
      {plain(target.host, 60)}
    </a>
  );
}

/** What a URL has by its type or its ending. The page's policy lets media in over https and from the metadata itself. */
const PLAYED = {
  video: /^(?:data:video\/|https:.*\.(?:mp4|m4v|webm|ogv|mov)(?:[?#]|$))/i,
  audio: /^(?:data:audio\/|https:.*\.(?:mp3|wav|ogg|oga|flac|m4a|aac)(?:[?#]|$))/i,
};

/** A video or a sound, which is loaded once a visitor plays it. Other animations are a link. */
export function Animation({ url }: { readonly url: string }) {
  const [isPlayed, setPlayed] = useState(false);
  const target = openable(url);
  const kind = (["video", "audio"] as const).find((one) => PLAYED[one].test(target?.href ?? ""));
  if (target === undefined || kind === undefined) return <OutLink url={url} />;
  if (!isPlayed) {
    return (
      <button type="button" onClick={() => setPlayed(true)}>
        Play the {kind} from {plain(target.host, 60) || "the metadata"}
      </button>
    );
  }
  const Player = kind;
  return <Player src={target.href} controls autoplay />;
}
