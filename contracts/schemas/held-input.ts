/** What the dispatch of a call tells its run of a question that a server asks on an open connection (`held-input.ts`). */
import { z } from 'zod';
import { FormRequest, UrlRequest } from './input.ts';

/** The worker that asks compares them itself. */
const requests = z.record(
  z.string(),
  z.discriminatedUnion('kind', [FormRequest.omit({ mac: true }), UrlRequest.omit({ mac: true })]),
);

/** Argument of the update `inputAsked`. Its id is `held/<callId>/<attempt>/<round>`, so that a repeat is the same one. */
export const HeldQuestions = z.strictObject({
  callId: z.string().regex(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/),
  /** The dispatch that asks. */
  attempt: z.int().positive(),
  /** Times that this dispatch has asked, from 1. */
  round: z.int().positive(),
  requests,
});
export type HeldQuestions = z.infer<typeof HeldQuestions>;
