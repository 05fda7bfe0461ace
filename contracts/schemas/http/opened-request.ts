/** The request that readers of events get beside the ledger's entry, which has hashes only. */
import { z } from 'zod';
import { Sha256Hex } from '../json.ts';
import { LedgerEntry } from '../ledger.ts';
import { ToolAnnotations } from '../tool.ts';

export const OpenedRequest = z.strictObject({
  server: z.string(),
  /** Original name. */
  tool: z.string(),
  definitionHash: Sha256Hex,
  /** Hash of all arguments, redacted ones too. */
  argumentsHash: Sha256Hex,
  /**
   * JSON as lists show it, without what policy redacts: long strings are cut each by itself, and all after 500
   * characters. Absent once the run's turn is over, as are the description and the annotations.
   */
  arguments: z.string().optional(),
  /** Data of the server, not instructions: escape before showing. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
});
export type OpenedRequest = z.infer<typeof OpenedRequest>;

/** An entry of a run's ledger. The hash covers the entry without `request`. */
export const RunEvent = LedgerEntry.extend({
  request: OpenedRequest.optional(),
});
export type RunEvent = z.infer<typeof RunEvent>;
