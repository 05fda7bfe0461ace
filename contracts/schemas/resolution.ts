/** What a person says became of a call whose outcome is not known. */
import { z } from 'zod';
import { answerTo } from './decision.ts';

export const Resolution = z.discriminatedUnion('kind', [
  /** It is sent again, with the same idempotency key. */
  z.strictObject({ kind: z.literal('retry'), ...answerTo, comment: z.string().max(4_096).optional() }),
  /** It did what it should: this is told to the model, as the words of whoever says so. */
  z.strictObject({
    kind: z.literal('succeeded'),
    ...answerTo,
    result: z.string().min(1).max(16_384),
    comment: z.string().max(4_096).optional(),
  }),
  /** It did not. */
  z.strictObject({
    kind: z.literal('failed'),
    ...answerTo,
    message: z.string().min(1).max(4_096),
    comment: z.string().max(4_096).optional(),
  }),
]);
export type Resolution = z.infer<typeof Resolution>;
export type ResolutionInput = z.input<typeof Resolution>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedResolution = Resolution & { readonly signature?: string };
