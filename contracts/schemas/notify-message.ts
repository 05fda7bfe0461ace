/** A message as a webhook gets it. Receivers in any language read this; fields are added, never changed. */
import { z } from 'zod';
import { MessageEvent } from './notify.ts';
import { RequestStatus } from './request.ts';

const MessageRequest = z.strictObject({
  callId: z.string(),
  /** Number of the request for this call, from 1. */
  generation: z.int().positive(),
  server: z.string(),
  tool: z.string(),
  /** JSON as lists show it, without what policy redacts: long strings are cut each by itself, and all after 500 characters. */
  arguments: z.string(),
  /** Who may decide, in words. */
  who: z.string(),
  deadline: z.string(),
  rules: z.array(z.string()),
  explain: z.array(z.string()).optional(),
  /** The subject, if it is not consent to the call. */
  about: z.enum(['outcome', 'input', 'authorization']).optional(),
  /** Why it is asked again. */
  because: z.string().optional(),
  /** How it closed; only of `request.closed`. */
  closed: z.strictObject({ status: RequestStatus, by: z.string().optional() }).optional(),
  /** A page about the request. It gives nobody a right. */
  url: z.string().optional(),
});

export const WebhookMessage = z.strictObject({
  type: z.templateLiteral(['request.', MessageEvent]),
  data: z.strictObject({
    namespace: z.string(),
    /** Workflow id of the run. */
    run: z.string(),
    tenant: z.string(),
    initiator: z.string(),
    /** Whom it is for. */
    to: z.strictObject({ ids: z.array(z.string()), groups: z.array(z.string()) }),
    requests: z.array(MessageRequest),
    /** Number of further requests that are not listed. */
    more: z.int().positive().optional(),
  }),
});
export type WebhookMessage = z.infer<typeof WebhookMessage>;
