/**
 * This scenario records a run in trust mode `signed` whose activities are answered by somebody without a key. The run
 * believes none of it (docs/adr/0047).
 */
import type { Discovery } from '../../../contracts/schemas/tool.ts';
import type { DispatchResult } from '../../../contracts/wire/tools.ts';
import { resolve } from './resolving.ts';
import { approve, calls, refused, type Scenario, scenario, type Scene } from './scene.ts';
import { SIGNED_TOOLS_QUEUE } from './stage.ts';

const ANN = { id: 'acme|ann', groups: [] as string[] };
const POLICY = {
  servers: { notes: { tools: { read_note: { action: 'ask' as const, approvers: { ids: [ANN.id] } } } } },
};
const NO_TOOLS: Discovery = {
  server: 'notes',
  tools: { sha256: '0'.repeat(64), bytes: 2, contentType: 'application/json' },
  count: 0,
  refused: [],
};
/** If the run believed this result, it would send the call a second time. */
const NOT_SENT: DispatchResult = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'It was not sent.' };

/** Ends the next tool activity in a worker's place. */
async function answers(scene: Scene, result: object): Promise<void> {
  await (await scene.takeActivity(SIGNED_TOOLS_QUEUE)).end(result);
}

export const UNPROVEN: readonly Scenario[] = [
  scenario(
    'unproven',
    { points: ['unproven-listed', 'unproven-sent'], steps: [calls(['read_note', 'monday'])] },
    async (scene) => {
      const { deployment, keys, trust, serveTools } = await scene.stage.openSignedApart();
      await trust([keys.backend]);
      await scene.start({ initiator: { id: ANN.id, tenant: 'office' }, policy: POLICY }, { on: deployment });
      await answers(scene, NO_TOOLS);
      const tools = await serveTools();
      const request = await scene.openOne('t1.c0');
      await tools.stop();
      await scene.take('unproven-listed');
      await scene.decide(approve(request, 'yes', { approver: ANN }));
      await answers(scene, NOT_SENT);
      const lost = await scene.asked('t1.c0', 2);
      await scene.take('unproven-sent', {
        refused: [
          refused(resolve(lost, 'an answer that nobody signed', { kind: 'retry', approver: ANN }), 'SIGNATURE_MISSING'),
        ],
      });
    },
  ),
];
