/** What a dispatch believes of the word that a call is sent again: nothing that it cannot prove (INV-X1, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import { checkRetry } from '../../../../activities/gate/statement.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../../domain/request/digest.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomePause, retry as word } from '../../../support/builders/pause.ts';
import { START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import type { RetryProof } from '../../../../contracts/wire/proofs.ts';

type Input = Pick<DispatchInput, 'attempt' | 'proof' | 'decidedIn' | 'arguments' | 'callId'>;

const run = { namespace: 'default', workflowId: 'run/1', initiator: { id: 'ann', tenant: 'default' }, specHash: 's' };
const iso = (ms: number): string => new Date(ms).toISOString();
const config = Config.parse({});
const TWO: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['ann', 'bob'], groups: [], need: 2 }] };

function digestFor(proof: Omit<RetryProof, 'resolution'>, runId = 'run-1'): string {
  const { about, generation, approvers, definitionHash } = proof;
  const { namespace, workflowId, initiator } = run;
  return requestDigest({
    namespace,
    tenant: initiator.tenant,
    workflowId,
    callId: 't1.c0',
    runId,
    generation,
    target: { ...toolTarget(), definitionHash },
    arguments: {},
    approvers,
    about,
  });
}

function proofOf(over: Partial<RetryProof> = {}, said: object = {}): RetryProof {
  const shown = {
    about: outcomePause(),
    generation: 2,
    approvers: approverRule(),
    definitionHash: toolTarget().definitionHash,
    openedAt: iso(START),
    deadline: iso(START + 60_000),
    decidedAt: iso(START + 1_000),
    ...over,
  };
  return { resolution: { ...word({ digest: digestFor(shown) }), ...said }, ...shown };
}

function check(
  retry: RetryProof | undefined,
  over: Partial<Input> = {},
  verdict: Verdict = allowVerdict(),
  given = config,
) {
  const call = { callId: 't1.c0', target: toolTarget(), arguments: {}, decidedIn: ['run-1'], attempt: 2 };
  const proof = { kind: 'policy', rules: [] };
  // Sound: nothing else of it is read.
  const input = { run, ...call, proof, ...defined({ retry }), ...over } as unknown as DispatchInput;
  if (verdict.kind === 'deny') throw new Error('not asked about what is denied');
  return checkRetry(input, given, verdict);
}

test('control: whoever is asked says so, and it is sent again; a first attempt needs nobody', () => {
  expect(check(proofOf())).toBeUndefined();
  expect(check(undefined, { attempt: 1 })).toBeUndefined();
});

describe('is refused', () => {
  test.each<[string, RetryProof, Partial<Input>]>([
    ['of another call', proofOf({}, { callId: 't1.c1' }), {}],
    ['that is no retry', proofOf({}, { kind: 'succeeded' }), {}],
    ['of another digest', proofOf({}, { digest: 'f'.repeat(64) }), {}],
    ['by a stranger', proofOf({}, { approver: { id: 'mallory', groups: [] } }), {}],
    ['after the deadline', proofOf({ decidedAt: iso(START + 60_000) }), {}],
    ['before it was asked', proofOf({ decidedAt: iso(START - 1) }), {}],
    ['at no time', proofOf({ decidedAt: 'never' }), {}],
    ['of a request opened at no time', proofOf({ openedAt: 'never' }), {}],
    ['with no deadline', proofOf({ deadline: 'never' }), {}],
    ['for other arguments', proofOf(), { arguments: { amount: 1 } }],
    ['of the attempt that it lets leave', proofOf(), { attempt: 1 }],
    [
      'for another attempt than was shown',
      { ...proofOf(), about: outcomePause({ attempt: 0 + 1, message: 'else' }) },
      {},
    ],
    ['with other approvers than were shown', { ...proofOf(), approvers: approverRule(['ann', 'eve']) }, {}],
    ['of another generation', { ...proofOf(), generation: 3 }, {}],
    ['of another definition', { ...proofOf(), definitionHash: 'e'.repeat(64) }, {}],
    ['by one of two who must agree', proofOf({ approvers: TWO }), {}],
  ])('a word %s', (_what, retry, over) => {
    expect(check(retry, over)).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('one of two, where the consent is older than the word', () => {
    const proof = { kind: 'decision', decidedAt: iso(START) } as DispatchInput['proof'];
    expect(check(proofOf({ approvers: TWO }), { proof })).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });
});

test('by one of two it is the consent of both that counts, given since', () => {
  // Sound: of a decision only its time is read here; that it is one, `checkConsent` looks at.
  const proof = { kind: 'decision', decidedAt: iso(START + 2_000) } as DispatchInput['proof'];
  expect(check(proofOf({ approvers: TWO }), { proof })).toBeUndefined();
});

test('what was shown with an earlier definition of the tool counts: consent to the new one is asked for apart', () => {
  expect(check(proofOf({ definitionHash: 'e'.repeat(64) }))).toBeUndefined();
});

describe('the same is asked again', () => {
  test('after a reset (INV-G2)', () => {
    expect(check(proofOf(), { decidedIn: ['run-2'] })).toMatchObject({
      kind: 'reopen',
      code: 'DECISION_STALE_RUN',
      asks: 'outcome',
    });
  });

  test('of those whom policy asks now: for consent', () => {
    const verdict = askVerdict({ approvers: approverRule(['zoe']), deadlineSeconds: 60 });
    expect(check(proofOf(), {}, verdict)).toMatchObject({
      kind: 'reopen',
      code: 'VERDICT_STRICTER',
      asks: 'outcome',
      approvers: approverRule(['zoe']),
      deadlineSeconds: 60,
    });
  });

  test('of those whom policy names now: in general', () => {
    const strict = Config.parse({ policy: { approvers: { ids: ['zoe'] } } });
    expect(check(proofOf(), {}, allowVerdict(), strict)).toMatchObject({ code: 'VERDICT_STRICTER', asks: 'outcome' });
  });
});
