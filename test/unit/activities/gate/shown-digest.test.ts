/** What is shown by a proof is no more than it may say: run, tool and call are those of the dispatch (INV-G1, INV-G2). */
import { expect, test } from '@jest/globals';
import { checkConsent, digestShown, shownForConsent, statementOf } from '../../../../activities/gate/statement.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { DispatchProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../../domain/request/digest.ts';
import { approval } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule } from '../../../support/builders/judgement.ts';
import { outcomePause } from '../../../support/builders/pause.ts';
import { START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

const run = { namespace: 'default', workflowId: 'run/1', initiator: { id: 'ann', tenant: 'default' }, specHash: 's' };
const approved = toolTarget();
const other = { ...approved, tool: 'delete_everything' };
const rule: ApproverRule = {
  allOf: approverRule().allOf.map((clause) => ({ ...clause, may: ['edit'], remember: ['tool'] })),
};

const shown = { generation: 1, arguments: {}, approvers: rule };
const digest = requestDigest({
  ...shown,
  namespace: 'default',
  tenant: 'default',
  workflowId: 'run/1',
  runId: 'run-1',
  callId: 't1.c0',
  target: approved,
});
const at = (ms: number): string => new Date(START + ms).toISOString();

function inputOf(proof: DispatchProof, target = approved): DispatchInput {
  // Sound: nothing else of it is read.
  return { run, callId: 't1.c0', target, arguments: {}, proof, decidedIn: ['run-1'] } as unknown as DispatchInput;
}

/** A decision on one tool, and a proof that names that tool as what was shown. */
const FORGED: object = { ...shown, target: approved };

test.each([
  ['what is shown to an editor', FORGED],
  ['nothing more', shown],
])('an edited approval of one tool is none for another, by %s', (_, edit) => {
  const decision = { ...approval({ digest }), arguments: {} } as Decision;
  const proof = { kind: 'decision', decision, generation: 2, approvers: rule, deadline: at(60_000), decidedAt: at(1) };
  // Sound: what stands in an input is whatever its sender wrote.
  const sent = (target: typeof approved) => inputOf({ ...proof, edit } as unknown as DispatchProof, target);
  expect(checkConsent(sent(approved), allowVerdict(), undefined, START + 2)).toBeUndefined();
  expect(checkConsent(sent(other), allowVerdict(), undefined, START + 2)).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
});

test.each([
  ['what was shown', FORGED],
  ['nothing more', shown],
])('a decision that stands for one tool is none for another, by %s', (_, said) => {
  const decision = { ...approval({ digest }), remember: { scope: 'tool' } } as Decision;
  const deadline = { deadline: at(60_000), decidedAt: at(1) };
  const proof = { kind: 'standing', standing: 's', decisions: [decision], callId: 't1.c0', shown: said, ...deadline };
  // Sound: as above.
  const standing = proof as unknown as Extract<DispatchProof, { kind: 'standing' }>;
  const checked = (target: typeof approved) =>
    checkConsent(inputOf(standing, target), allowVerdict(), undefined, START + 2);
  expect(checked(approved)).toBeUndefined();
  expect(checked(other)).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
});

const ELSE: readonly [string, unknown][] = [
  ['namespace', 'other'],
  ['tenant', 'other'],
  ['workflowId', 'other'],
  ['runId', 'other'],
  ['callId', 't1.c1'],
  ['target', other],
];

test.each(ELSE)('nothing of a proof is read as %s', (name, value) => {
  const input = inputOf({ kind: 'policy', rules: [] });
  const said = { ...shown, [name]: value, about: outcomePause() } as typeof shown;
  expect(digestShown(input, shownForConsent(input, said), 'run-1')).toBe(digest);
  const times = { openedAt: at(0), deadline: at(60_000), decidedAt: at(1) };
  const pause = { ...shown, ...times, definitionHash: approved.definitionHash, about: outcomePause() };
  const digestOf = (proof: typeof pause) =>
    digestShown(input, statementOf(input, proof, approval({ digest })).shown, 'run-1');
  const known = digestOf(pause);
  expect(known).not.toBe(digest);
  expect(digestOf({ ...pause, [name]: value, arguments: { a: 1 } })).toBe(known);
});
