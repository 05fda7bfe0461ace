/**
 * These scenarios record runs that are stopped, cancelled or interrupted around an activity of theirs.
 * The activity is in flight, or is scheduled in the same workflow task. In the second case, what the run itself cancels
 * reaches it once more in that task.
 */
import { ACTIVITIES } from '../../../contracts/names.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { resetBeforeDecision } from './moving.ts';
import type { Attempt } from './recording.ts';
import { approve, calls, refused, type Scenario, scenario, type Scene } from './scene.ts';
import type { Crossed, Serving, Stage } from './stage.ts';

const WRITES = [calls(['write_note', 'monday'])];
const STOP = { by: 'ben', reason: 'not today' };
const HINT = { messageId: 'hint', text: 'Tuesday is a holiday.', from: 'ben', interrupt: true } as const;
const LATE: Attempt = { name: 'a message', update: 'say', input: { messageId: 'late', text: 'And?', from: 'ben' } };
const AGAIN: Attempt = { name: 'the same message', update: 'say', input: HINT };

/** A crew is the set of workers that serve the runs of one scene. */
export class Crew {
  readonly #crossed: Crossed;
  #runs: Serving | undefined;
  #tools: Serving | undefined;

  constructor(crossed: Crossed) {
    this.#crossed = crossed;
  }

  async runs(serving: 'all' | 'tasks' | 'nothing'): Promise<void> {
    await this.#runs?.stop();
    this.#runs = undefined;
    if (serving === 'all') this.#runs = await this.#crossed.serve('runs');
    if (serving === 'tasks') this.#runs = await this.#crossed.serveTasks();
  }

  async tools(): Promise<void> {
    this.#tools = await this.#crossed.serve('tools');
  }

  async leave(): Promise<void> {
    await Promise.all([this.#runs?.stop(), this.#tools?.stop()]);
  }
}

/** Brings the run to its request, and leaves only a worker that takes workflow tasks. */
async function asking(scene: Scene, crossed: Crossed, crew: Crew): Promise<ApprovalRequest> {
  await crew.tools();
  await crew.runs('all');
  await scene.start({}, { on: crossed });
  const request = await scene.openOne('t1.c0');
  await crew.runs('tasks');
  return request;
}

function edited(request: ApprovalRequest): Attempt {
  return approve(request, 'an edit', { arguments: { name: 'changed' } });
}

/** @returns the request that waits, if there is one */
type Reach = (scene: Scene, crossed: Crossed, crew: Crew) => Promise<ApprovalRequest | undefined>;

/** Brings the run to its first model step, which waits for a worker. */
export async function thinking(scene: Scene, crossed: Crossed, crew: Crew): Promise<undefined> {
  await crew.runs('all');
  await scene.start({}, { on: crossed });
  await scene.scheduled(ACTIVITIES.discoverTools);
  await crew.runs('tasks');
  await crew.tools();
  await Promise.any([scene.scheduled(ACTIVITIES.modelStep), scene.scheduled(ACTIVITIES.stretch)]);
}

/** Places at which a run is met: an activity was scheduled and waits. */
const WHERE: Readonly<Record<string, { readonly steps: Scenario['script']['steps']; readonly reach: Reach }>> = {
  preparing: {
    steps: [],
    reach: async (scene, crossed, crew) => {
      await crew.runs('tasks');
      await scene.start({}, { on: crossed });
      await scene.scheduled(ACTIVITIES.prepareRun);
      await crew.tools();
      return undefined;
    },
  },
  thinking: { steps: WRITES, reach: thinking },
  judging: {
    steps: WRITES,
    reach: async (scene, crossed, crew) => {
      const request = await asking(scene, crossed, crew);
      // The history contains the answer to this edit.
      void scene.decide(edited(request)).catch(() => undefined);
      await scene.scheduled(ACTIVITIES.judge);
      return request;
    },
  },
  rolling: {
    steps: WRITES,
    reach: async (scene, crossed, crew) => {
      const request = await asking(scene, crossed, crew);
      await scene.handle.signal('nudge');
      await scene.scheduled(ACTIVITIES.storeSegment);
      return request;
    },
  },
};

const HOW: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  stopped: (scene) => scene.run.stop(STOP),
  cancelled: (scene) => scene.run.cancel(),
  interrupted: (scene) => scene.run.say(HINT),
};

/** One scenario for each pair of place and message, recorded when they meet and at the end of the run. */
const MEETINGS = Object.entries(WHERE).flatMap(([where, { steps, reach }]) =>
  Object.entries(HOW).map(([how, act]): Scenario => {
    const name = `${where}-${how}`;
    // A run that is cancelled is over at once, unless somebody waits for the verdict on an edit. A run that is
    // interrupted while it rolls ends in its next execution.
    const isOver = how === 'cancelled' && where !== 'judging';
    const isFollowed = name === 'rolling-interrupted';
    const points = [name, ...(isFollowed ? [`${name}-first`] : []), ...(isOver ? [] : [`${name}-ended`])];
    return scenario(
      name,
      { points, steps },
      played(async (scene, crossed, crew) => {
        const request = await reach(scene, crossed, crew);
        const { runId } = await scene.handle.describe();
        await act(scene);
        const ends = how !== 'interrupted';
        const decision = request && refused(approve(request, 'approval'), 'REQUEST_NOT_OPEN');
        await scene.take(name, {
          refused: isOver ? [] : [...(ends ? [refused(LATE, 'RUN_CLOSED')] : []), ...(decision ? [decision] : [])],
          accepted: ends ? [] : [AGAIN],
        });
        if (isOver) return;
        await crew.runs('all');
        await scene.ended();
        if (isFollowed) await scene.take(`${name}-first`, { runId });
        await scene.take(`${name}-ended`);
      }),
    );
  }),
);

export function played(
  play: (scene: Scene, crossed: Crossed, crew: Crew) => Promise<void>,
  on: (stage: Stage) => Promise<Crossed> = (stage) => stage.crossed(),
): Scenario['play'] {
  return async (scene) => {
    const crossed = await on(scene.stage);
    const crew = new Crew(crossed);
    try {
      await play(scene, crossed, crew);
    } finally {
      await crew.leave();
    }
  };
}

/** Checks that the messages came in one workflow task, since that cannot be forced beforehand. */
async function assertOneTask(
  { deployment: { client }, workflowId }: Scene,
  runId: string,
  count: number,
): Promise<void> {
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const came = [0];
  let isDone = false;
  for (const event of events ?? []) {
    const isTaken = Boolean(event.workflowExecutionUpdateAcceptedEventAttributes);
    const isSent = Boolean(event.workflowExecutionSignaledEventAttributes);
    // In history, an accepted update stands behind the end of its task, and a signal before it.
    if (isSent && isDone) came.push(0);
    if (isSent) isDone = false;
    if (isSent || isTaken) came.push((came.pop() ?? 0) + 1);
    if (event.workflowTaskCompletedEventAttributes) {
      if (isDone) came.push(0);
      isDone = true;
    }
  }
  if (!came.includes(count))
    throw new Error(`${workflowId}: no ${count} messages came in one workflow task; try again`);
}

const AT_ONCE: readonly Scenario[] = [
  scenario(
    'cancelled-at-start',
    { steps: [] },
    played(async (scene, crossed, crew) => {
      await scene.start({}, { on: crossed });
      await scene.run.cancel();
      await crew.runs('tasks');
      await scene.ended('cancelled-at-start');
    }),
  ),
  scenario(
    'edit-stopped-at-once',
    { steps: WRITES },
    played(async (scene, crossed, crew) => {
      const request = await asking(scene, crossed, crew);
      await crew.runs('nothing');
      await scene.handle.signal('decide', edited(request).input);
      const stopped = scene.run.stop(STOP);
      await crew.runs('all');
      await Promise.all([stopped, scene.ended()]);
      await assertOneTask(scene, request.runId, 2);
      await scene.take('edit-stopped-at-once');
    }),
  ),
  scenario(
    'all-at-once',
    {
      points: ['all-at-once-first', 'all-at-once-ended'],
      steps: [calls(['write_note', 'monday'], ['write_note', 'tuesday'])],
    },
    played(async (scene, crossed, crew) => {
      await crew.tools();
      await crew.runs('all');
      await scene.start({}, { on: crossed });
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      await crew.runs('nothing');
      const { handle } = scene;
      await handle.signal('decide', approve(first, 'approval by signal').input);
      await handle.signal('nudge');
      const sent = [
        scene.send(approve(second, 'approval by update')),
        scene.run.say({ messageId: 'hint', text: 'Tuesday is a holiday.', from: 'ben' }),
      ];
      await crew.runs('all');
      await Promise.all(sent);
      await scene.ended();
      await assertOneTask(scene, first.runId, 4);
      await scene.take('all-at-once-first', { runId: first.runId });
      await scene.take('all-at-once-ended');
    }),
  ),
  // After the reset Temporal sends the stop again, before the new run has scheduled anything.
  scenario(
    'reset-stopped',
    { steps: WRITES },
    played(async (scene, crossed, crew) => {
      await thinking(scene, crossed, crew);
      await scene.run.stop(STOP);
      await crew.runs('all');
      await scene.ended();
      await resetBeforeDecision(scene);
      await scene.ended('reset-stopped');
    }),
  ),
];

export const CROSSING: readonly Scenario[] = [...MEETINGS, ...AT_ONCE];
