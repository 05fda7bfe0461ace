/** What a person says where a server wants another authorization than it got. */
import { z } from 'zod';
import { answerTo } from './decision.ts';
import { Grant } from './run-spec.ts';

/** Also of a list of tools before the first turn, which is asked about under turn 0. */
const toAny = {
  ...answerTo,
  callId: z.string().regex(/^t(?:0|[1-9][0-9]{0,5})\.c[0-9]{1,3}$/, 'must look like t1.c0'),
};
const comment = z.string().max(4_096).optional();

export const Authorization = z.discriminatedUnion('kind', [
  /** The scopes that the request names may be asked for, for this call alone; where it names none, it is tried again. */
  z.strictObject({ kind: z.literal('consent'), ...toAny, comment }),
  /** Takes the place of the run's grant for that server; only from whose grant it replaces. */
  z.strictObject({ kind: z.literal('grant'), ...toAny, grant: Grant, comment }),
  /** Neither: the call ends. */
  z.strictObject({ kind: z.literal('decline'), ...toAny, reason: z.string().min(1).max(4_096) }),
]);
export type Authorization = z.infer<typeof Authorization>;
export type AuthorizationInput = z.input<typeof Authorization>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedAuthorization = Authorization & { readonly signature?: string };
