/** Makes a small schema that takes 2^levels steps to check: each definition refers to the next one twice. */
import type { JsonObject } from '../../contracts/schemas/json.ts';

export function doublingSchema(levels: number): JsonObject {
  const $defs = Object.fromEntries(
    Array.from({ length: levels }, (_, n) => [
      `d${n}`,
      n + 1 === levels ? {} : { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]),
  );
  return { $defs, $ref: '#/$defs/d0' };
}
