/** These scenarios record runs whose approvers edit arguments, or answer in the tool's place. */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { until } from '../../support/until.ts';
import type { Attempt } from './recording.ts';
import { approve, calls, refused, reject, type Scenario, scenario, type Scene, wrongDecisions } from './scene.ts';
import type { Editable } from './stage.ts';

/** A tight limit lets a small argument be too large. */
const TIGHT = { limits: { argumentBytes: 256 } };
const PAST = '2020-01-01T00:00:00.000Z';
const FAR = '2199-01-01T00:00:00.000Z';
const CHANGED = { name: 'changed' };

function edit(request: ApprovalRequest, name: string, args: JsonObject = CHANGED): Attempt {
  return approve(request, name, { arguments: args });
}

function respond(request: ApprovalRequest, name: string): Attempt {
  return approve(request, name, { kind: 'respond', answer: 'It is done by hand.' });
}

/** Makes decisions that are wrong in ways that only edits can be. */
function wrongEdits(request: ApprovalRequest) {
  return [
    ...wrongDecisions(request),
    refused(edit(request, 'the same arguments', request.arguments), 'DECISION_INVALID'),
    refused(edit(request, 'too large arguments', { name: 'x'.repeat(250) }), 'ARGUMENTS_TOO_LARGE'),
    refused(approve(request, 'no arguments', { arguments: [] }), 'DECISION_INVALID'),
    refused(
      approve(request, 'arguments by a stranger', { arguments: CHANGED, approver: { id: 'mallory' } }),
      'APPROVER_NOT_ENTITLED',
    ),
  ];
}

/** Takes away what the judge needs, and restarts workers so that none remembers it. */
async function holdJudge(scene: Scene, { directory, restart }: Editable): Promise<() => Promise<void>> {
  const found = (await scene.run.ledger()).flatMap(({ fact }) =>
    fact.kind === 'tools.discovered' ? [fact.toolsHash] : [],
  );
  const [hash = ''] = found;
  const stored = join(directory, hash.slice(0, 2), hash.slice(2, 4), hash);
  await rename(stored, `${stored}.away`);
  await restart();
  return async () => await rename(`${stored}.away`, stored);
}

export const EDITING: readonly Scenario[] = [
  scenario('edit-judged', { steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    const editable = await scene.stage.editable();
    await scene.start(TIGHT, { on: editable });
    const request = await scene.openOne('t1.c0');
    const release = await holdJudge(scene, editable);
    const answer = scene.decide(edit(request, 'an edit')).catch(() => undefined);
    const { handle } = scene;
    await until(async () => (await handle.describe()).raw.pendingActivities?.length === 1, {
      what: 'the judge of the edit',
    });
    await scene.take('edit-judged', { refused: wrongEdits(request) });
    await release();
    await answer;
    await scene.ended();
  }),
  scenario('edited-at-once', { points: ['edited-sent'], steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    await scene.start(TIGHT, { on: await scene.stage.editable() });
    const request = await scene.openOne('t1.c0');
    await scene.decide(edit(request, 'an edit'));
    await scene.ended('edited-sent');
  }),
  scenario(
    'edited-of-two',
    { points: ['edited-waits', 'edited-of-two'], steps: [calls(['seal_note', 'monday'])] },
    async (scene) => {
      const editable = await scene.stage.editable();
      await scene.start(TIGHT, { on: editable });
      const request = await scene.openOne('t1.c0');
      await scene.decide(edit(request, 'an edit'));
      const now = await scene.openOne('t1.c0');
      const stale = refused(approve(request, 'what was shown before'), 'DIGEST_MISMATCH');
      const own = refused(approve(now, 'of one who has edited'), 'ALREADY_DECIDED');
      await scene.take('edited-waits', {
        refused: [
          // Ann has agreed already, and the run reports that before anything else.
          ...wrongEdits(now).filter(({ code }) => code !== 'DECISION_STALE_RUN'),
          stale,
          own,
          refused(respond(now, 'an answer that is not wanted'), 'DECISION_NOT_PERMITTED'),
        ],
        accepted: [approve(now, 'of the other', { approver: { id: 'zoe', groups: [] } })],
      });
      await scene.ended('edited-of-two');
    },
  ),
  scenario(
    'answered',
    { steps: [calls(['write_note', 'monday']), calls(['write_note', 'tuesday'])] },
    async (scene) => {
      await scene.start(TIGHT, { on: await scene.stage.editable() });
      const first = await scene.openOne('t1.c0');
      await scene.decide(respond(first, 'an answer'));
      const second = await scene.openOne('t2.c0');
      const late = refused(approve(first, 'approval of what was answered'), 'ALREADY_DECIDED');
      await scene.take('answered', { refused: [late, ...wrongEdits(second)], accepted: [reject(second, 'rejection')] });
    },
  ),
  scenario(
    'standing',
    {
      points: ['standing', 'forgotten'],
      steps: [
        calls(['write_note', 'monday']),
        calls(['write_note', 'monday'], ['write_note', 'tuesday']),
        calls(['write_note', 'monday']),
      ],
    },
    async (scene) => {
      await scene.start(TIGHT, { on: await scene.stage.editable() });
      const first = await scene.openOne('t1.c0');
      const remember = (request: ApprovalRequest, name: string, extent: object): Attempt =>
        approve(request, name, { remember: extent });
      await scene.decide(remember(first, 'stands', { scope: 'arguments', names: ['name'], until: FAR }));
      const second = await scene.openOne('t2.c1');
      await scene.ledgered('outcome', 't2.c0');
      const forget = (name: string, over: object = {}): Attempt => ({
        name,
        update: 'forget',
        input: { standing: 'stands', by: { id: 'zoe' }, ...over },
      });
      const wrong = [
        refused(remember(second, 'any call of the tool', { scope: 'tool' }), 'DECISION_NOT_PERMITTED'),
        refused(remember(second, 'until yesterday', { scope: 'call', until: PAST }), 'DECISION_INVALID'),
        refused(remember(second, 'a name that is none', { scope: 'arguments', names: ['day'] }), 'DECISION_INVALID'),
        refused(remember(second, 'no names', { scope: 'arguments', names: [] }), 'DECISION_INVALID'),
        refused(forget('what does not stand', { standing: 'nothing' }), 'STANDING_UNKNOWN'),
        refused(forget('taken back by a stranger', { by: { id: 'mallory' } }), 'APPROVER_NOT_ENTITLED'),
        refused(forget('taken back by nobody', { by: undefined }), 'DECISION_INVALID'),
      ];
      await scene.take('standing', {
        refused: [...wrong, ...wrongDecisions(second)],
        accepted: [forget('taken back')],
      });
      await scene.decide(reject(second, 'rejection'));
      const third = await scene.openOne('t3.c0');
      await scene.take('forgotten', {
        refused: wrongDecisions(third),
        accepted: [forget('taken back again'), remember(third, 'stands again', { scope: 'call' })],
      });
    },
  ),
];
