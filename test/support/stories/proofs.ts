/** Makes a run of two entries with the messages signed for them, and forges one part of it. */
import type { RecordedDeeds } from '../../../client/ledger/history.ts';
import { defined } from '../../../contracts/defined.ts';
import type { AnyEntry, LedgerFact } from '../../../contracts/schemas/ledger.ts';
import type { Decision } from '../../../contracts/schemas/request.ts';
import { RunSpec } from '../../../contracts/schemas/run-spec.ts';
import type { TrustedJwk } from '../../../contracts/schemas/trust.ts';
import { specHash } from '../../../domain/request/digest.ts';
import type { AnswerPurpose } from '../../../domain/request/signed-answer.ts';
import { signatureEvidence } from '../../../domain/signing/jws.ts';
import type { Answerable } from '../../../domain/state/run.ts';
import { hashOf, sha256Hex } from '../../../domain/text/canonical.ts';
import { approval } from '../builders/decision.ts';
import { ledgerOf } from '../builders/ledger.ts';
import { START } from '../builders/run.ts';
import { claimsFor, person, service, signedWith, type TestClaims, type TestKey } from '../signing/people.ts';

export const NAMESPACE = 'default';
export const RUN = 'ticket-1';
export const SECONDS = START / 1_000;
const LIFE = { iat: SECONDS - 10, exp: SECONDS + 60 };

export const ann = person('ann-1', 'ann', ['ops']);
export const ben = person('ben-1', 'ben');
export const backend = service('backend-1', ['ops']);
export const elsewhere = person('ann-2', 'ann', ['ops'], { tenants: ['another'] });
export const stranger = person('mallory-1', 'ann', ['ops']);
export const TRUSTED: readonly TrustedJwk[] = [ann, ben, backend, elsewhere].map(({ entry }) => entry);

const SPEC = { agent: { name: 'clerk', model: 'main' }, input: 'Look.', initiator: { id: 'acme|ann' } };
export const ANN = { id: 'acme|ann', groups: ['ops'] };

/** The signed message, its signature, and the ledger's entry: each test forges one of them. */
export interface Forgery {
  readonly key?: TestKey;
  readonly claims?: TestClaims;
  /** Message sent with the signature of the original one. */
  readonly sent?: object;
  readonly signature?: string | null;
  readonly fact?: object;
  readonly at?: number;
}

export interface Story {
  readonly entries: readonly AnyEntry[];
  readonly deeds: Pick<RecordedDeeds, 'from' | 'start' | 'messages'>;
}

async function signatureOf(message: object, about: TestClaims, { key = ann, claims = {} }: Forgery): Promise<string> {
  const place = { namespace: NAMESPACE, tenant: 'default', workflowId: RUN };
  return await signedWith(key, claimsFor(message, place, { ...about, ...LIFE, ...claims }));
}

export const base = { decisionId: 'd-1', approver: ANN } as const;

/** Makes a run of two entries: its start, and a decision that was accepted a second later. */
export async function story(
  decision: Decision = approval({ ...base, comment: 'seen' }),
  forged: Forgery = {},
  start: Forgery = {},
): Promise<Story> {
  const told = { kind: 'decision.accepted', decision: decision.kind, ...saidBy(decision) };
  return await storyOf(decision, { purpose: 'decide', told }, forged, start);
}

/**
 * Makes the same with any answer to a request.
 * @param told fields of the entry beside the person and the request
 */
export async function storyOf(
  answer: Answerable,
  { purpose, told }: { readonly purpose: AnswerPurpose; readonly told: object },
  forged: Forgery = {},
  start: Forgery = {},
): Promise<Story> {
  const { approver, decisionId, runId, callId, digest } = answer;
  const [iss, sub] = approver.id.split('|');
  const about = { purpose, runId, jti: decisionId, iss, sub, groups: approver.groups };
  const signature = await signatureOf(answer, about, forged);
  const message = { ...answer, ...forged.sent, ...(forged.signature === null ? {} : { signature }) };
  const said = { callId, generation: 1, decisionId, approver, digest, runId };
  const fact = { ...said, signature: signatureEvidence(signature), ...told, ...forged.fact } as LedgerFact;
  const spec = RunSpec.parse(SPEC);
  const started = {
    kind: 'run.started',
    agent: 'clerk',
    model: 'main',
    initiator: 'acme|ann',
    tenant: 'default',
    specHash: specHash(spec),
    policyVersion: 'b'.repeat(64),
    servers: [],
    ...start.fact,
  } as LedgerFact;
  const signedStart = await signatureOf(SPEC, { purpose: 'start', iss: 'acme', sub: 'ann' }, start);
  return {
    entries: ledgerOf([started, fact]),
    deeds: {
      from: 0,
      start: {
        spec: { ...SPEC, ...start.sent, ...(start.signature === null ? {} : { signature: signedStart }) },
        at: start.at ?? START,
      },
      messages: new Map([[decisionId, [{ message, at: forged.at ?? START + 1_000 }]]]),
    },
  };
}

function saidBy(decision: Decision): object {
  switch (decision.kind) {
    case 'reject':
      return { comment: decision.reason };
    case 'extend':
      return { until: decision.until };
    case 'respond':
      return { answerHash: sha256Hex(decision.answer) };
    case 'approve':
      return {
        ...defined({ comment: decision.comment, remember: decision.remember }),
        ...(decision.arguments === undefined
          ? {}
          : { edited: { from: 'c'.repeat(64), to: hashOf(decision.arguments) } }),
      };
    case 'withdraw':
      return {};
  }
}
