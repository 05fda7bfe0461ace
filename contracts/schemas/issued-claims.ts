/**
 * A token that a worker issues itself (RFC 9068) carries these claims for its verifier: which call it is for, and who
 * countersigned exactly that call.
 */
import { z } from 'zod';
import { Sha256Hex } from './json.ts';

const people = z.array(z.string());

/** The reason for which the call may be made. */
export const IssuedConsent = z.discriminatedUnion('kind', [
  /** Policy allows the call without asking. */
  z.strictObject({ kind: z.literal('policy'), rules: z.array(z.string()) }),
  /** These people approved the request with this digest. */
  z.strictObject({ kind: z.literal('decision'), digest: Sha256Hex, approvers: people }),
  /** These people approved an earlier call, and the standing decision covers this one. */
  z.strictObject({
    kind: z.literal('standing'),
    digest: Sha256Hex,
    approvers: people,
    /** The call whose request they approved. */
    callId: z.string(),
  }),
]);
export type IssuedConsent = z.infer<typeof IssuedConsent>;

/** One `tools/call`. */
export const IssuedCall = z.strictObject({
  callId: z.string(),
  /** Temporal run that dispatched the call. */
  executionId: z.string(),
  tool: z.string(),
  definition: Sha256Hex,
  /** sha256 of the canonical JSON (RFC 8785) of the sent arguments. */
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
  /** `temporal`: the namespace vouches for people; `signed`: each of them has signed. */
  trust: z.enum(['temporal', 'signed']),
  /** Absent for listing tools. */
  call: IssuedCall.optional(),
});
export type IssuedContext = z.infer<typeof IssuedContext>;

const seconds = z.int();

export const IssuedClaims = z.looseObject({
  iss: z.string(),
  /** The initiator of the run; the client itself if a catalog lists tools. */
  sub: z.string(),
  aud: z.string(),
  exp: seconds,
  iat: seconds,
  jti: z.string(),
  client_id: z.string(),
  scope: z.string().optional(),
  /** The actor for the subject (RFC 8693 §4.1). */
  act: z.strictObject({ sub: z.string() }).optional(),
  countersign: IssuedContext,
});
export type IssuedClaims = z.infer<typeof IssuedClaims>;
