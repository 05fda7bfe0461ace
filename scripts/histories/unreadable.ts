/**
 * This scenario records a run that got unreadable messages, one of them sealed with a key that its worker did not have.
 * Replays have that key.
 */
import { RawValue } from '@temporalio/common';
import { payloadConverter } from '../../contracts/payload-converter.ts';
import { SIGNALS } from '../../contracts/names.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { approve, wrongDecisions } from './attempts.ts';
import { calls, says, type Scenario } from './scene.ts';
import { CORPUS_ENCRYPTION } from './stage.ts';
import { until } from './until.ts';

const BRACE = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{') };

export const UNREADABLE: readonly Scenario[] = [
  {
    name: 'unread',
    points: ['unread'],
    script: { steps: [calls(['write_note', 'monday']), says('The notes are in order.')] },
    play: async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const [codec] = createDataConverter({ encryption: CORPUS_ENCRYPTION }).payloadCodecs;
      const [sealed = BRACE] =
        (await codec?.encode([payloadConverter.toPayload(approve(request, 'a sealed approval').input)])) ?? [];
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
      for (const payload of [BRACE, sealed]) await handle.signal(SIGNALS.decide, RawValue.fromPayload(payload));
      await until(async () => {
        const ledger = await scene.run.ledger();
        return ledger.filter(({ fact }) => fact.kind === 'decision.refused').length === 2 ? true : undefined;
      }, 'two refused signals');
      await scene.take('unread', { refused: wrongDecisions(request), accepted: [approve(request, 'approval')] });
    },
  },
];
