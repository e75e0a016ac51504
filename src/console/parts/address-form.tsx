/** Forms that ask for an address, on every screen that has one. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Where } from "../state/place.ts";
import { Form } from "./action.tsx";
import { ChainMenu, useChainChoice } from "./chain-menu.tsx";
import { Field } from "./fields.tsx";
import { isAddress } from "./format.ts";

export const NOT_AN_ADDRESS = "An address has 0x and 40 hexadecimal digits.";

interface AddressFormOptions {
  readonly id: string;
  readonly label: string;
  /** The text of the button. */
  readonly action: string;
  /** What to say of another text. */
  readonly wrong?: string;
  /** Fields before the address. */
  readonly children?: ComponentChildren;
  /** Returns what to say afterwards. */
  readonly onAddress: (address: string) => string | Promise<string>;
}

export function AddressForm({ id, label, action, wrong = NOT_AN_ADDRESS, children, ...rest }: AddressFormOptions) {
  const [text, setText] = useState("");
  const address = text.trim().toLowerCase();
  return (
    <Form action={action} work={() => (isAddress(address) ? rest.onAddress(address) : wrong)}>
      {children}
      <Field {...{ id, label }} value={text} placeholder="0x…" onInput={setText} />
    </Form>
  );
}

interface ContractFormOptions extends Omit<AddressFormOptions, "children" | "onAddress"> {
  readonly chains: readonly string[];
  /** The chain that is chosen at first. */
  readonly chain?: string | undefined;
  readonly onContract: (contract: Where) => string | Promise<string>;
}

/** Asks for a contract: its chain and its address. */
export function ContractForm({ chains, chain: first, onContract, ...rest }: ContractFormOptions) {
  const [chain, setChain] = useChainChoice(chains, first);
  return (
    <AddressForm {...rest} onAddress={(address) => onContract({ chain, address })}>
      <ChainMenu id={`${rest.id}-chain`} {...{ chains, chain }} onChain={setChain} />
    </AddressForm>
  );
}
