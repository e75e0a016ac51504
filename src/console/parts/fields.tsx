/** Fields of forms with their labels. */

interface FieldOptions {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly placeholder: string;
  readonly isSearch?: boolean;
  readonly class?: "narrow";
  readonly inputMode?: "numeric";
  readonly onInput: (text: string) => void;
}

export function Field({ id, label, onInput, isSearch = false, ...rest }: FieldOptions) {
  const input = {
    ...{ id, ...rest },
    onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => onInput(currentTarget.value),
  };
  return (
    <span class="field">
      <label for={id}>{label}</label> {isSearch ? <input {...input} type="search" /> : <input {...input} />}
    </span>
  );
}

/** A field that filters a list by a part of the address, the name or the symbol. */
export const Filter = (options: Pick<FieldOptions, "id" | "value" | "onInput">) => (
  <Field {...options} label="Filter" isSearch placeholder="Address, name or symbol" />
);

interface ChoiceOptions<Value extends string | number> {
  readonly id: string;
  readonly label: string;
  readonly value: Value;
  readonly options: readonly { readonly value: Value; readonly name: string }[];
  readonly onChoose: (value: Value) => void;
}

export const Choice = <Value extends string | number>({ id, label, onChoose, ...rest }: ChoiceOptions<Value>) => (
  <span class="field">
    <label for={id}>{label}</label>{" "}
    <select
      id={id}
      value={rest.value}
      onChange={({ currentTarget }) => onChoose((rest.options[currentTarget.selectedIndex] ?? rest).value)}
    >
      {rest.options.map(({ value, name }) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  </span>
);
