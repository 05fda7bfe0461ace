/** What a person answers to the questions of a server. */
import { z } from 'zod';
import { answerTo } from './decision.ts';
import { InputResponse } from './input.ts';

const comment = z.string().max(4_096).optional();

export const Provision = z.discriminatedUnion('kind', [
  /** Question by question, by the server's keys. */
  z.strictObject({
    kind: z.literal('provide'),
    ...answerTo,
    responses: z.record(z.string(), InputResponse),
    comment,
  }),
  /** A no to all of them; the server is told so, and ends the call or goes on without. */
  z.strictObject({ kind: z.literal('decline'), ...answerTo, comment }),
  /** Nobody answers; the server is told that, too. */
  z.strictObject({ kind: z.literal('cancel'), ...answerTo, comment }),
]);
export type Provision = z.infer<typeof Provision>;
export type ProvisionInput = z.input<typeof Provision>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedProvision = Provision & { readonly signature?: string };
