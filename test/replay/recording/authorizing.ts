/**
 * These scenarios record runs whose server no longer accepts their grant. The person who gave it gives another one, or
 * declines.
 */
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { Attempt } from './recording.ts';
import { answer, approve, APPROVER, calls, type Expected, refused, type Scenario, scenario } from './scene.ts';
import { FRESH_REF, STALE_REF } from './stage.ts';

const BEN: typeof APPROVER = { id: 'ben', groups: [] };
const ZOE: typeof APPROVER = { id: 'zoe', groups: [] };

function authorize(request: ApprovalRequest, name: string, over: object = {}): Attempt {
  const grant = { server: 'notes', ref: FRESH_REF };
  return answer('authorize', request, name, { kind: 'grant', grant, approver: BEN, ...over });
}

function consent(request: ApprovalRequest, name: string, approver = APPROVER): Attempt {
  return answer('authorize', request, name, { kind: 'consent', approver });
}

function declined(request: ApprovalRequest, name: string, approver = BEN): Attempt {
  return answer('authorize', request, name, { kind: 'decline', reason: 'Not on a Tuesday.', approver });
}

/** Makes one answer for each way in which an answer to such a request can be wrong. */
function wrongAnswers(request: ApprovalRequest): Expected[] {
  return [
    refused(authorize(request, 'a stale answer', { digest: '0'.repeat(64) }), 'DIGEST_MISMATCH'),
    refused(authorize(request, 'by somebody else', { approver: APPROVER }), 'APPROVER_NOT_ENTITLED'),
    refused(authorize(request, 'in clear', { grant: { server: 'notes', jwe: 'a token' } }), 'DECISION_INVALID'),
    refused(authorize(request, 'for no server', { grant: { server: 'n', ref: FRESH_REF } }), 'DECISION_INVALID'),
    refused(consent(request, 'consent to nothing', BEN), 'DECISION_NOT_PERMITTED'),
    refused(approve(request, 'a decision'), 'DECISION_NOT_PERMITTED'),
  ];
}

export const AUTHORIZING: readonly Scenario[] = [
  scenario(
    'unauthorized',
    {
      points: ['unauthorized', 'unauthorized-granted', 'unauthorized-ended'],
      steps: [calls(['borrow_note', 'monday'], ['borrow_note', 'tuesday']), calls(['borrow_note', 'sunday'])],
    },
    async (scene) => {
      scene.stage.tools.retell({ borrow_note: 'Borrows one note, from those who may.' });
      await scene.start({ grants: [{ server: 'notes', ref: STALE_REF }] }, { on: await scene.stage.lent() });
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      await scene.take('unauthorized', { refused: wrongAnswers(first), accepted: [authorize(first, 'a fresh grant')] });
      await scene.ledgered('outcome', 't1.c0');
      await scene.take('unauthorized-granted', {
        refused: [
          refused(authorize(first, 'a second answer'), 'ALREADY_DECIDED'),
          refused({ ...declined(first, 'a fresh grant'), name: 'an id used before' }, 'DECISION_INVALID'),
          ...wrongAnswers(second),
        ],
        accepted: [declined(second, 'declined')],
      });
      await scene.ended();
      scene.stage.tools.retell({});
      await scene.take('unauthorized-ended');
    },
  ),
  scenario(
    'unconsented',
    {
      points: ['unconsented', 'unconsented-counted', 'unconsented-ended'],
      steps: [calls(['open_note', 'monday']), calls(['open_note', 'tuesday'])],
    },
    async (scene) => {
      scene.stage.tools.retell({ open_note: 'Opens one note, for those who may.' });
      await scene.start({}, { on: await scene.stage.scoped() });
      const first = await scene.openOne('t1.c0');
      const wrong = [
        refused(consent(first, 'by nobody whom policy names', BEN), 'APPROVER_NOT_ENTITLED'),
        refused(authorize(first, 'a grant instead', { approver: APPROVER }), 'DECISION_NOT_PERMITTED'),
        refused(approve(first, 'a decision'), 'DECISION_NOT_PERMITTED'),
      ];
      await scene.take('unconsented', {
        refused: [...wrong, refused(authorize(first, 'a stale answer', { digest: '0'.repeat(64) }), 'DIGEST_MISMATCH')],
        accepted: [consent(first, 'one of two')],
      });
      await scene.ledgered('authorization.given', 't1.c0');
      await scene.take('unconsented-counted', {
        refused: [...wrong, refused(consent(first, 'the same one again'), 'ALREADY_DECIDED')],
        accepted: [consent(first, 'the other of two', ZOE)],
      });
      const second = await scene.openOne('t2.c0');
      await scene.send(declined(second, 'declined', APPROVER));
      await scene.ended();
      scene.stage.tools.retell({});
      await scene.take('unconsented-ended');
    },
  ),
  scenario(
    'unlisted',
    { points: ['unlisted', 'unlisted-ended'], steps: [calls(['borrow_note', 'monday'])] },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.lent() });
      const [first] = await scene.open(['t0.c0']);
      await scene.take('unlisted', {
        refused: [...wrongAnswers(first).slice(0, -1), refused(approve(first, 'a decision'), 'DECISION_INVALID')],
        accepted: [authorize(first, 'a grant to list')],
      });
      await scene.ended('unlisted-ended');
    },
  ),
];
