/**
 * What stands in a token that a worker issues itself (RFC 9068), for whoever verifies one: which call it is for, and who
 * countersigned exactly that call.
 */
import { z } from 'zod';
import { Sha256Hex } from './json.ts';

const people = z.array(z.string());

/** Why the call may be made. */
export const IssuedConsent = z.discriminatedUnion('kind', [
  /** Policy lets it pass without asking. */
  z.strictObject({ kind: z.literal('policy'), rules: z.array(z.string()) }),
  /** These people approved the request with this digest. */
  z.strictObject({ kind: z.literal('decision'), digest: Sha256Hex, approvers: people }),
  /** They approved an earlier call, and what they said answers this one, too. */
  z.strictObject({
    kind: z.literal('standing'),
    digest: Sha256Hex,
    approvers: people,
    /** The call whose request it was. */
    callId: z.string(),
  }),
]);
export type IssuedConsent = z.infer<typeof IssuedConsent>;

/** One `tools/call`. */
export const IssuedCall = z.strictObject({
  callId: z.string(),
  /** Temporal run in which it was dispatched. */
  executionId: z.string(),
  tool: z.string(),
  definition: Sha256Hex,
  /** sha256 of the canonical JSON (RFC 8785) of the arguments that are sent. */
  arguments: Sha256Hex,
  consent: IssuedConsent,
});
export type IssuedCall = z.infer<typeof IssuedCall>;

/** The claim `countersign`. */
export const IssuedContext = z.strictObject({
  namespace: z.string(),
  /** Workflow id of the run, or of the catalog that lists tools. */
  run: z.string(),
  tenant: z.string().optional(),
  /** `temporal`: people are who the namespace says they are; `signed`: each of them has signed. */
  trust: z.enum(['temporal', 'signed']),
  /** Absent where tools are listed. */
  call: IssuedCall.optional(),
});
export type IssuedContext = z.infer<typeof IssuedContext>;

const seconds = z.int();

export const IssuedClaims = z.looseObject({
  iss: z.string(),
  /** Whoever started the run; the client itself where a catalog lists tools. */
  sub: z.string(),
  aud: z.string(),
  exp: seconds,
  iat: seconds,
  jti: z.string(),
  client_id: z.string(),
  scope: z.string().optional(),
  /** Who acts for the subject (RFC 8693 §4.1). */
  act: z.strictObject({ sub: z.string() }).optional(),
  countersign: IssuedContext,
});
export type IssuedClaims = z.infer<typeof IssuedClaims>;
