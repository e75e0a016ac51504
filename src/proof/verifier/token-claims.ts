/** The claims about tokens: the owner of a token that has one, and an owner's amount of a token that has many. */
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import {
  abiAddress,
  abiNumber,
  addressResult,
  type CallOutcome,
  type ProvenCall,
  type StateClaim,
  wordAt,
} from "./claim.ts";
import { addressText, amongst, listOf, numberText, objectOf } from "./parse.ts";
import { demand } from "./refusal.ts";

/** Selectors of the views that name an owner: ERC-721's, CryptoPunks' and MoonCats', which takes five bytes. */
const OWNER_VIEWS = {
  "ownerOf(uint256)": "0x6352211e",
  "punkIndexToAddress(uint256)": "0x58178168",
  "catOwners(bytes5)": "0x3894ca57",
} as const;
/** Bits of a MoonCat's id, which stands at the left end of its word. */
const CAT_BITS = 40n;
/** `balanceOf(address,uint256)`, the same in ERC-1155 and ERC-6909. */
const BALANCE_OF = "0x00fdd58e";

export type OwnerView = keyof typeof OWNER_VIEWS;

export interface OwnerSubject {
  readonly contract: Address;
  /** Decimal. */
  readonly tokenId: string;
  readonly view: OwnerView;
}

function ownerData(tokenId: string, view: OwnerView): string {
  if (view !== "catOwners(bytes5)") return `${OWNER_VIEWS[view]}${abiNumber(tokenId)}`;
  demand(BigInt(tokenId) < 1n << CAT_BITS, "subject.tokenId is no id of a cat");
  return `${OWNER_VIEWS[view]}${abiNumber(BigInt(tokenId) << (256n - CAT_BITS))}`;
}

const viewText = amongst(...(Object.keys(OWNER_VIEWS) as OwnerView[]));

export const OWNER_CLAIM: StateClaim<OwnerSubject> = {
  subject: objectOf<OwnerSubject>({
    contract: addressText,
    tokenId: numberText,
    view: viewText,
  }),
  calls: (subject) => [{ to: subject.contract, data: ownerData(subject.tokenId, subject.view) }],
  result({ view }, [outcome]) {
    // Contracts revert for tokens that don't exist. An answer of another form is no answer about an owner.
    return { owner: outcome?.ok === false ? null : addressResult(outcome, view) };
  },
  words({ contract, tokenId, view }, { owner }) {
    const name = view.slice(0, view.indexOf("("));
    const token = `token ${tokenId} of the contract ${contract}`;
    if (owner === null) return `the contract refuses to name an owner of ${token}: its ${name} reverts.`;
    if (owner === ZERO_ADDRESS) return `${token} has no owner: ${name} gives the zero address.`;
    return `the owner of ${token} is ${owner}, by its ${name}.`;
  },
};

export interface AmountSubject {
  readonly contract: Address;
  /** Decimal. */
  readonly tokenId: string;
  readonly owner: Address;
}

const balanceCall = ({ contract, tokenId, owner }: AmountSubject): ProvenCall => ({
  to: contract,
  data: `${BALANCE_OF}${abiAddress(owner)}${abiNumber(tokenId)}`,
});

export const AMOUNT_CLAIM: StateClaim<AmountSubject> = {
  subject: objectOf<AmountSubject>({ contract: addressText, tokenId: numberText, owner: addressText }),
  calls: (subject) => [balanceCall(subject)],
  result: (_, [outcome]) => ({ amount: wordAt(outcome, 0, "balanceOf").toString() }),
  words: ({ contract, tokenId, owner }, { amount }) =>
    `${owner} holds ${amount} of token ${tokenId} of the contract ${contract}, by its balanceOf.`,
};

/** Tokens of one document about many. */
export const MAX_TOKENS = 100;

/** Many tokens of one contract. */
export interface OwnersSubject {
  readonly contract: Address;
  readonly view: OwnerView;
  /** Decimal. */
  readonly tokenIds: readonly string[];
}

export const OWNERS_CLAIM: StateClaim<OwnersSubject> = {
  subject: objectOf<OwnersSubject>({ contract: addressText, view: viewText, tokenIds: listOf(numberText, MAX_TOKENS) }),
  calls: ({ contract, view, tokenIds }) =>
    tokenIds.map((tokenId) => ({ to: contract, data: ownerData(tokenId, view) })),
  result({ view, tokenIds }, outcomes) {
    demand(new Set(tokenIds).size === tokenIds.length, "a token is listed twice");
    const ownerOf = (outcome: CallOutcome | undefined) => (outcome?.ok === false ? null : addressResult(outcome, view));
    return Object.fromEntries(tokenIds.map((tokenId, at) => [tokenId, ownerOf(outcomes[at])]));
  },
  words({ contract, view, tokenIds }) {
    const name = view.slice(0, view.indexOf("("));
    return `the owners of ${tokenIds.length} tokens of the contract ${contract} are those in result, by its ${name}; null where it refuses to name one.`;
  },
};

/** What one owner holds of one token. */
export interface ProvenHolding {
  readonly tokenId: string;
  readonly owner: Address;
}

export interface AmountsSubject {
  readonly contract: Address;
  readonly holdings: readonly ProvenHolding[];
}

/** The name of a holding among the results. */
export const holdingName = ({ tokenId, owner }: ProvenHolding): string => `${tokenId}/${owner}`;

export const AMOUNTS_CLAIM: StateClaim<AmountsSubject> = {
  subject: objectOf<AmountsSubject>({
    contract: addressText,
    holdings: listOf(objectOf<ProvenHolding>({ tokenId: numberText, owner: addressText }), MAX_TOKENS),
  }),
  calls: ({ contract, holdings }) => holdings.map((one) => balanceCall({ ...one, contract })),
  result({ holdings }, outcomes) {
    const names = holdings.map(holdingName);
    demand(new Set(names).size === names.length, "a holding is listed twice");
    return Object.fromEntries(names.map((name, at) => [name, wordAt(outcomes[at], 0, "balanceOf").toString()]));
  },
  words: ({ contract, holdings }) =>
    `what ${holdings.length} owners hold of tokens of the contract ${contract} is in result, by its balanceOf. That nobody else holds any is not proven.`,
};
