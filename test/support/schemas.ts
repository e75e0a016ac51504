/** Answers held against the schemas of the OpenAPI document that the same service serves, by a validator from outside. */
import { Ajv } from "ajv";
import type { TestService } from "./service.ts";

/** What of an answer's body is not as the document says, in the validator's words; empty when all of it is. */
export async function schemaFaults(service: TestService, schema: string, body: unknown): Promise<string[]> {
  const { components } = (await service.get("/swagger/json")).body;
  // `example` and the like say nothing of what is valid; the schemas name each other by their place in the document.
  const ajv = new Ajv({ strict: false, allErrors: true });
  ajv.addSchema({ $id: "document", components });
  const validate = ajv.getSchema(`document#/components/schemas/${schema}`);
  if (validate === undefined) throw new Error(`the document has no schema ${schema}`);
  validate(body);
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
