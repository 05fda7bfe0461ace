/** A message as a webhook gets it. Receivers in any language read this; fields are added, never changed. */
import { z } from 'zod';
import { Sha256Hex } from './json.ts';
import { MessageEvent } from './notify.ts';
import { RequestStatus } from './request.ts';

const MessageRequest = z.strictObject({
  callId: z.string(),
  /** Number of the request for this call, from 1. */
  generation: z.int().positive(),
  server: z.string(),
  tool: z.string(),
  /** JSON as lists show it, redacted, cut after 500 characters; empty in a digest that does not know them any more. */
  arguments: z.string(),
  who: z.string(),
  deadline: z.string(),
  rules: z.array(z.string()),
  explain: z.array(z.string()).optional(),
  /** The subject, if it is not consent to the call. */
  about: z.enum(['outcome', 'input', 'authorization']).optional(),
  because: z.string().optional(),
  closed: z.strictObject({ status: RequestStatus, by: z.string().optional() }).optional(),
  /** A page about the request. It gives nobody a right. */
  url: z.string().optional(),
});
export type MessageRequest = z.infer<typeof MessageRequest>;

/** `run` is the workflow id. */
const ofRun = { namespace: z.string(), run: z.string(), tenant: z.string(), initiator: z.string() };
const to = z.strictObject({ ids: z.array(z.string()), groups: z.array(z.string()) });
/** Number of further requests that are not listed. */
const more = z.int().positive().optional();

const OfOneRun = z.strictObject({
  type: z.templateLiteral(['request.', MessageEvent]),
  data: z.strictObject({
    ...ofRun,
    to,
    requests: z.array(MessageRequest),
    more,
  }),
});
/** What several runs have to tell through a channel with a digest. */
const OfSeveralRuns = z.strictObject({
  type: z.literal('requests.digest'),
  data: z.strictObject({
    to,
    requests: z.array(z.strictObject({ event: MessageEvent, ...ofRun, ...MessageRequest.shape })),
    more,
  }),
});

export const WebhookMessage = z.union([OfOneRun, OfSeveralRuns]);
export type WebhookMessage = z.infer<typeof WebhookMessage>;

// Workers write this into buttons of Slack's messages, and gateways read it from the press of one (Block Kit,
// `block_actions`).

/** Ids of the actions; a message may outlive the release that wrote it. */
export const SLACK_ACTIONS = { approve: 'countersign_approve', reject: 'countersign_reject' } as const;

/** Value of a button: what exactly is answered. */
export const SlackButton = z.strictObject({
  run: z.string().min(1).max(1_000),
  callId: z.string().min(1).max(40),
  digest: Sha256Hex,
  /** Temporal run id under which the request was shown. */
  runId: z.string().min(1).max(200),
});
export type SlackButton = z.infer<typeof SlackButton>;
