/**
 * These scenarios record runs that go on in stretches (docs/adr/0058). What happens to a first activity (docs/adr/0062)
 * has names with `begun`.
 */
import { ACTIVITIES } from '../../../contracts/names.ts';
import { heardItsEnd, resultRecorded } from '../../support/faults/stretches.ts';
import { played, thinking } from './crossing.ts';
import type { Attempt } from './recording.ts';
import { alone, approve, calls, refused, type Scenario, scenario, type Scene, wrongDecisions } from './scene.ts';
import type { Deployment, Stage } from './stage.ts';

const STOP = { by: 'ben', reason: 'the week is over' };
const HINT = { messageId: 'hint', text: 'Tuesday is a holiday.', from: 'ben', interrupt: true } as const;
const LATE: Attempt = { name: 'a message', update: 'say', input: { messageId: 'late', text: 'And?', from: 'ben' } };
const AGAIN: Attempt = { name: 'the same message', update: 'say', input: HINT };

const READS = calls(['read_note', 'monday']);
const WRITES = calls(['write_note', 'monday']);
const HOLDS = calls(['hold_note', 'tuesday'], ['read_note', 'tuesday']);

/** The activity that a scenario is about: the first one of its run, or a stretch after an approval. */
type Where = 'begun' | 'stretch';
const STEPS: Readonly<Record<Where, Scenario['script']['steps']>> = {
  begun: [READS, HOLDS],
  stretch: [WRITES, READS, HOLDS],
};

const stretching = async (stage: Stage): Promise<Deployment> => await stage.stretching();

/** Brings a run to a turn in which its server holds a call, and Temporal has the result of the other one. */
async function holding(scene: Scene, where: Where, on: Deployment): Promise<void> {
  await scene.start({}, { on });
  if (where === 'stretch') await scene.decide(approve(await scene.openOne('t1.c0'), 'yes'));
  await scene.stage.tools.held(1);
  await resultRecorded(on.client, scene.run, where === 'stretch' ? 't3.c1' : 't2.c1');
}

/** Records where a run has been told that it is over or is to listen, and how it goes on from there. */
function ended(where: Where, how: 'interrupted' | 'stopped'): Scenario {
  const name = `${where}-${how}`;
  return scenario(name, { points: [`${name}-held`, name], steps: STEPS[where] }, async (scene) => {
    await holding(scene, where, await stretching(scene.stage));
    await (how === 'interrupted' ? scene.run.say(HINT) : scene.run.stop(STOP));
    await heardItsEnd(scene.deployment.client, scene.run);
    const taken = how === 'interrupted' ? { accepted: [AGAIN] } : { refused: [refused(LATE, 'RUN_CLOSED')] };
    await scene.take(`${name}-held`, taken);
    scene.stage.tools.release();
    await scene.ended(name);
  });
}

/** Records a run whose calls in flight are given up. */
function givenUp(name: string, act: (scene: Scene) => Promise<unknown>): Scenario {
  return scenario(name, { steps: STEPS.stretch }, async (scene) => {
    await holding(scene, 'stretch', await stretching(scene.stage));
    await act(scene);
    await scene.ended();
    scene.stage.tools.release();
    await scene.take(name);
  });
}

/** Its worker cannot reach Temporal any more, which is the same to Temporal as a worker that has died. */
function lost(where: Where): Scenario {
  const name = `${where}-lost`;
  return scenario(name, { points: [name, `${name}-sent-again`], steps: STEPS[where] }, async (scene) => {
    const losing = await scene.stage.losing(`countersign-${name}`);
    await holding(scene, where, losing);
    await losing.way.cut();
    await scene.timedOut();
    await losing.serve();
    await scene.stage.tools.held(2);
    await scene.take(name, { accepted: [{ ...LATE, name: 'a message for the next turn' }] });
    scene.stage.tools.release();
    await scene.ended(`${name}-sent-again`);
    await losing.way.mend();
  });
}

/** A worker takes the activity, and is lost before anything is on record. */
function lostEarly(where: Where): Scenario {
  const name = `${where}-lost-early`;
  return scenario(
    name,
    { steps: [WRITES] },
    played(
      async (scene, crossed, crew) => {
        if (where === 'stretch') await thinking(scene, crossed, crew);
        else {
          await crew.runs('tasks');
          await crew.tools();
          await scene.start({}, { on: crossed });
          await scene.scheduled(ACTIVITIES.prepareRun);
        }
        await scene.takeActivity(crossed.taskQueue);
        await scene.timedOut();
        await crew.runs('all');
        await scene.decide(approve(await scene.openOne('t1.c0'), 'yes'));
        await scene.ended(name);
      },
      (stage) => stage.crossedStretching(),
    ),
  );
}

export const STRETCHING: readonly Scenario[] = [
  // The whole run is in its first activity.
  alone('begun', [READS, calls(['read_note', 'tuesday'], ['read_note', 'sunday'])], {}, stretching),
  // The turn that asks leaves by activities of its own. The stretch after it begins with its results.
  scenario(
    'stretched',
    {
      points: ['stretched-asking', 'stretched'],
      steps: [
        READS,
        calls(['read_note', 'tuesday']),
        calls(['write_note', 'monday'], ['read_note', 'sunday']),
        calls(['read_note', 'wednesday']),
        WRITES,
      ],
    },
    async (scene) => {
      await scene.start({}, { on: await stretching(scene.stage) });
      const request = await scene.openOne('t3.c0');
      await scene.ledgered('outcome', 't3.c1');
      const approval = approve(request, 'approval');
      await scene.take('stretched-asking', { refused: wrongDecisions(request), accepted: [approval] });
      await scene.decide(approve(await scene.openOne('t5.c0'), 'another approval'));
      await scene.ended('stretched');
    },
  ),
  ended('begun', 'interrupted'),
  ended('begun', 'stopped'),
  ended('stretch', 'interrupted'),
  ended('stretch', 'stopped'),
  givenUp('stretch-stopped-in-flight', (scene) => scene.run.stop({ ...STOP, inFlight: 'cancel' })),
  givenUp('stretch-cancelled', (scene) => scene.run.cancel()),
  // An execution has two turns, and so has a stretch in it.
  scenario(
    'stretched-continued',
    {
      points: ['stretched-continued-first', 'stretched-continued'],
      steps: [WRITES, READS, calls(['read_note', 'tuesday'])],
    },
    async (scene) => {
      await scene.start({ limits: { turnsPerExecution: 2 } }, { on: await stretching(scene.stage) });
      await scene.decide(approve(await scene.openOne('t1.c0'), 'yes'));
      await scene.ended('stretched-continued');
      const { events } = await scene.handle.fetchHistory();
      const runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? '';
      await scene.take('stretched-continued-first', { runId });
    },
  ),
  // Nothing was done in this stretch, and nothing is waited for.
  scenario(
    'stretch-unbegun',
    { points: ['stretch-unbegun', 'stretch-unbegun-interrupted'], steps: [WRITES] },
    played(
      async (scene, crossed, crew) => {
        await thinking(scene, crossed, crew);
        await scene.take('stretch-unbegun', { accepted: [{ ...AGAIN, name: 'a message that interrupts' }] });
        await crew.runs('all');
        await scene.decide(approve(await scene.openOne('t1.c0'), 'yes'));
        await scene.ended('stretch-unbegun-interrupted');
      },
      (stage) => stage.crossedStretching(),
    ),
  ),
  lostEarly('begun'),
  lostEarly('stretch'),
  lost('begun'),
  lost('stretch'),
];
