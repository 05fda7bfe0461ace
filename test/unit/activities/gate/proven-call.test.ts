/** What a token says of a call: what is sent, and who consented to it (INV-G1, INV-S2). */
import { expect, test } from '@jest/globals';
import { provenCall } from '../../../../activities/gate/statement.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import { IssuedCall } from '../../../../contracts/schemas/credentials.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import type { OfferedTool } from '../../../../domain/run/toolset.ts';
import { approval } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import type { DispatchProof } from '../../../../contracts/wire/proofs.ts';

const DIGEST = 'd'.repeat(64);
const HASH = 'e'.repeat(64);
const by = (id: string, digest = DIGEST) => approval({ digest, approver: { id, groups: [] } });
const decided = (over: object = {}): DispatchProof => ({
  kind: 'decision',
  decision: by('bob'),
  generation: 1,
  approvers: approverRule(['ann', 'bob']),
  deadline: '',
  decidedAt: '',
  ...over,
});

function said(proof: DispatchProof, verdict: Verdict = askVerdict(), args = { b: 1, a: [2] }) {
  // Sound: nothing else of it is read.
  const input = { callId: 't2.c1', runId: 'run-1', arguments: args, proof } as unknown as DispatchInput;
  // Sound: as above.
  const tool = { hash: HASH, definition: { name: 'pay' } } as OfferedTool;
  const call = provenCall(input, tool, verdict);
  expect(IssuedCall.parse(call)).toEqual(call);
  return call;
}

test('the call is named with the hash of what is sent, in whatever order it was written', () => {
  const call = said(decided());
  expect(call).toMatchObject({ callId: 't2.c1', executionId: 'run-1', tool: 'pay', definition: HASH });
  // printf '{"a":[2],"b":1}' | sha256sum
  expect(call.arguments).toBe('63c9663de90ee828bbda6cd9acf02d0c653986c1ec25aa239920641edc9a1de5');
});

test('all who approved stand there, each once, the last first', () => {
  const further = [by('ann'), by('bob')];
  expect(said(decided({ further })).consent).toEqual({ kind: 'decision', digest: DIGEST, approvers: ['bob', 'ann'] });
});

test('what policy lets pass names the rules of the verdict that this worker reached, and not those of the input', () => {
  const proof: DispatchProof = { kind: 'policy', rules: ['invented'] };
  expect(said(proof, { ...allowVerdict(), rules: ['organisation/reads'] }).consent).toEqual({
    kind: 'policy',
    rules: ['organisation/reads'],
  });
});

test('an approval that stands is told apart from one of this call, and names the call that it was made on', () => {
  const proof: DispatchProof = {
    kind: 'standing',
    standing: 's-1',
    decisions: [by('ann'), by('bob')],
    callId: 't1.c0',
    shown: { generation: 1, arguments: {}, approvers: approverRule(['ann']) },
    deadline: '',
    decidedAt: '',
  };
  expect(said(proof).consent).toEqual({ kind: 'standing', digest: DIGEST, approvers: ['ann', 'bob'], callId: 't1.c0' });
});
