/** These scenarios record runs that read what results link to, and that continue as new between link and read. */
import { approve, APPROVER, wrongDecisions } from './attempts.ts';
import { continued } from './moving.ts';
import { calls, says, type Scenario } from './scene.ts';
import { noteUri } from './tool-server.ts';

const read = (note: string) => ({ tool: 'notes/resources:read', arguments: { uri: noteUri(note) } });

export const LINKING: readonly Scenario[] = [
  {
    name: 'linked',
    points: ['linked-continued-first', 'linked-continued', 'linked-read'],
    script: {
      steps: [
        calls(['link_note', 'monday']),
        // No result has linked to tuesday.
        { calls: [read('monday'), read('tuesday')], branches: [], repeat: 1 },
        says('The notes are in order.'),
      ],
    },
    play: async (scene) => {
      const asks = { action: 'ask' as const, approvers: { ids: [APPROVER.id], groups: APPROVER.groups } };
      const policy = { servers: { notes: { default: 'allow' as const, tools: { 'resources:read': asks } } } };
      await scene.start({ policy }, { on: await scene.stage.linked() });
      const first = await scene.openOne('t2.c0');
      const runId = await continued(scene, first.runId);
      const request = await scene.openOne('t2.c0', runId);
      await scene.take('linked-continued-first', { runId: first.runId });
      await scene.take('linked-continued', {
        refused: wrongDecisions(request),
        accepted: [approve(request, 'approval of a read')],
      });
      await scene.ended();
      await scene.take('linked-read');
    },
  },
  {
    // The scenario needs a workflow that denies no read (`--bundle`). Such a workflow takes over before the model has
    // answered.
    name: 'linked-undenied',
    points: ['linked-undenied'],
    script: {
      steps: [{ calls: [read('tuesday')], branches: [], repeat: 1 }, says('The notes are in order.')],
    },
    play: async (scene) => {
      const policy = { servers: { notes: { default: 'allow' as const } } };
      await scene.start({ policy }, { on: await scene.stage.linked() });
      await scene.ended();
      await scene.take('linked-undenied');
    },
  },
];
