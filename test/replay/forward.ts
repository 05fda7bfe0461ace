/**
 * Plays recorded scenes up to one of their points with one build, and goes on from there with the next one, on a real
 * server: a run that only replays may still be sent wrong ways.
 *
 * 1. All plays of a group come to their points before the workers are replaced, so that many share one replacement.
 * 2. A scene goes on as it does when it is recorded (`decide`), or waits for deadlines (`expire`), or is cancelled.
 * 3. The tool server counts: what must not be done twice has come once.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { executionChain } from '../../client/engine/executions.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ApprovalRequest, PauseKind } from '../../contracts/schemas/request.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { ROOT } from '../support/syntax.ts';
import { until } from '../support/until.ts';
import {
  acceptedBy,
  atRest,
  type Attempt,
  CATALOG,
  DIGEST,
  historyNameOf,
  type RecordedInputs,
  refusedBy,
  sender,
  type Taken,
  TICKET,
} from './recording/recording.ts';
import { SCENARIOS } from './recording/scenarios.ts';
import { answer, APPROVER, Scene, type Scenario } from './recording/scene.ts';
import type { Deployment, Stage } from './recording/stage.ts';
import type { SeenCall } from './recording/tool-server.ts';

export const ENDINGS = ['decide', 'expire', 'cancel'] as const;
export type Ending = (typeof ENDINGS)[number];

export interface Play {
  readonly point: string;
  readonly ending: Ending;
}

/** What became of a play. */
export interface Ended {
  /** As Temporal names it. */
  readonly status: string;
  /** Failed workflow tasks of all executions, in Temporal's words. */
  readonly failedTasks: readonly string[];
  /** Builds of the workflow tasks, in order and each once. */
  readonly builds: readonly string[];
  /** Calls that came more than once, though their tool must not be called twice. */
  readonly doubled: readonly string[];
  /** How its calls ended. */
  readonly outcomes: readonly string[];
}

/** Tools whose calls may come again: they only read, or the scene has them sent again. */
const AGAIN: ReadonlySet<string> = new Set([
  'read_note',
  'hold_note',
  'lose_answer',
  'refuse_once',
  'borrow_note',
  'open_note',
]);

/** Seconds in which plays of a group must come to their points, where requests are to expire. */
const DEADLINE_SECONDS = 30;

/** Thrown out of a scene that does not go on as it was recorded. */
class LeftScene extends Error {}

/** The point at which plays of a group wait for each other. */
class Meeting {
  #missing: number;
  readonly #met: Promise<void>;
  #meet: () => void = () => undefined;

  constructor(count: number, then: () => Promise<void>) {
    this.#missing = count;
    this.#met = new Promise<void>((resolve) => {
      this.#meet = resolve;
    }).then(then);
  }

  /** Counts a play that is there, or will never be. */
  count(): void {
    this.#missing -= 1;
    if (this.#missing === 0) this.#meet();
  }

  async all(): Promise<void> {
    this.count();
    await this.#met;
  }
}

/** Takes no history: it stands where the recorder stands, and changes the build at one point. */
class Crossing {
  /** Set once the point is reached. */
  workflowId: string | undefined;
  taskQueue: string | undefined;
  readonly #stage: Stage;
  readonly #play: Play;
  readonly #meeting: Meeting;

  constructor(stage: Stage, play: Play, meeting: Meeting) {
    this.#stage = stage;
    this.#play = play;
    this.#meeting = meeting;
  }

  async take(
    deployment: Deployment,
    workflowId: string,
    point: string,
    { refused = [], accepted = [], runId }: Taken,
  ): Promise<void> {
    const { raw, runId: asked } = await atRest(deployment.client.workflow.getHandle(workflowId, runId));
    const isOpen = (raw.workflowExecutionInfo?.closeTime ?? undefined) === undefined;
    const send = sender(deployment, workflowId, asked, isOpen);
    if (point === this.#play.point) {
      if (!isOpen) throw new CountersignError('INTERNAL', `${point} is no point at which a run waits.`);
      this.workflowId = workflowId;
      this.taskQueue = raw.executionConfig?.taskQueue?.name ?? undefined;
      // A worker that is replaced takes its call in flight with it: the run then waits for other answers than the
      // scene has.
      const isTornAway = this.#stage.tools.isHolding();
      await this.#meeting.all();
      if (this.#play.ending !== 'decide' || isTornAway) throw new LeftScene();
      for (const attempt of refused) {
        try {
          await refusedBy(send, attempt, isOpen, point);
        } catch (error) {
          // A run that was about to end may end while it is asked: then nobody can refuse any more.
          const { closeTime } = await deployment.client.workflow.getHandle(workflowId).describe();
          if (closeTime === undefined) throw error;
          break;
        }
      }
    }
    for (const attempt of accepted) await acceptedBy(send, attempt);
  }
}

/** Plays a group, whose members may share the stage, with the stage's build and then with the next one. */
export async function playForward(
  stage: Stage,
  plays: readonly Play[],
  builds: { readonly release: WorkflowBundle; readonly next: WorkflowBundle },
): Promise<readonly Ended[]> {
  await stage.change(builds.release);
  const meeting: Meeting = new Meeting(plays.length, async () => {
    await stage.change(builds.next, new Set(scenes.flatMap(({ crossing }) => crossing.taskQueue ?? [])));
  });
  const scenes = plays.map((play) => sceneOf(stage, play, meeting));
  try {
    await Promise.all(scenes.map(async ({ play }) => await play()));
    await stage.serveAll();
    stage.tools.retell({});
    stage.tools.refuseListing(false);
    return await Promise.all(
      scenes.map(async ({ scene, crossing }, index) => {
        // Sound: there is one scene for each play.
        const play = plays[index] as Play;
        return await endOf(scene, play, crossing.workflowId ?? scene.workflowId);
      }),
    );
  } finally {
    await stage.dismiss();
  }
}

function sceneOf(
  stage: Stage,
  play: Play,
  meeting: Meeting,
): { readonly scene: Scene; readonly crossing: Crossing; play(): Promise<void> } {
  const { point, ending } = play;
  const scenario = scenarioOf(point);
  const crossing = new Crossing(stage, play, meeting);
  const scene = new Scene(stage, crossing, scenario, {
    workflowId: `run-${scenario.name}-${point.replace('/', '-')}-${ending}`,
    ...(ending === 'expire' ? { deadlineSeconds: DEADLINE_SECONDS } : {}),
  });
  return {
    scene,
    crossing,
    play: async () => {
      try {
        await scenario.play(scene);
      } catch (error) {
        if (!(error instanceof LeftScene)) throw error;
        if (ending === 'cancel') await scene.run.cancel();
      } finally {
        if (crossing.workflowId === undefined) meeting.count();
      }
    },
  };
}

export function scenarioOf(point: string): Scenario {
  const scenario = SCENARIOS.find(({ points }) => points.includes(point));
  if (scenario === undefined) throw new Error(`no scene has a point ${point}`);
  return scenario;
}

/** Answers what still waits, where the scene has left it, and reads what became of the run. */
async function endOf(scene: Scene, { point, ending }: Play, workflowId: string): Promise<Ended> {
  const { client } = scene.deployment;
  // A catalog has no end, and the scene has seen the end of a ticket or a digest.
  const isRun = ![CATALOG, TICKET, DIGEST].some((prefix) => point.startsWith(prefix));
  if (isRun) await ended(scene, ending);
  const { histories } = await executionChain(client, workflowId);
  const events = histories.flatMap((history) => history.events ?? []);
  const { status } = await client.workflow.getHandle(workflowId).describe();
  return {
    status: status.name,
    failedTasks: events.flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
      // A reset fails the task at which it begins.
      failed && !failed.newRunId ? [failed.failure?.message ?? 'failed'] : [],
    ),
    builds: [
      ...new Set(
        events.flatMap(({ workflowTaskCompletedEventAttributes: done }) => done?.workerVersion?.buildId ?? []),
      ),
    ],
    doubled: doubledIn(scene.stage.tools.calls(), workflowId),
    outcomes: isRun ? await outcomesOf(scene) : [],
  };
}

async function ended(scene: Scene, ending: Ending): Promise<void> {
  const { handle, stage, run } = scene;
  let answers = 0;
  await until(
    async () => {
      if ((await handle.describe()).status.name !== 'RUNNING') return true;
      stage.tools.release();
      stage.tools.finish();
      if (ending !== 'decide') return false;
      const open = (await run.requests()).filter(({ status }) => status === 'open');
      for (const request of open) {
        answers += 1;
        // Those who may answer may be others by now, or have to sign.
        await scene
          .send(leastAnswer(request, answers))
          .catch(async () => await run.stop(STOP))
          .catch(async () => await run.cancel());
      }
      return false;
    },
    { what: `the end of ${scene.workflowId}`, withinMs: 150_000, instead: async () => await run.state() },
  );
}

const STOP = { by: 'acme|ben', reason: 'The scene is over.', inFlight: 'cancel' } as const;

const LEAST: Readonly<Record<PauseKind | 'consent', readonly [Attempt['update'], object]>> = {
  consent: ['decide', { kind: 'reject', reason: 'The scene is over.' }],
  outcome: ['resolveOutcome', { kind: 'failed', message: 'The scene is over.' }],
  input: ['provideInput', { kind: 'decline' }],
  authorization: ['authorize', { kind: 'decline', reason: 'The scene is over.' }],
};

/** One person can end any request so. */
function leastAnswer(request: ApprovalRequest, number: number): Attempt {
  const { allOf } = request.approvers;
  const [id = APPROVER.id] = allOf.flatMap(({ ids }) => ids);
  const approver = { id, groups: allOf.flatMap(({ groups }) => groups) };
  const [update, said] = LEAST[request.about?.kind ?? 'consent'];
  return answer(update, request, `in the end ${number}`, { ...said, approver });
}

/** Returns the keys of calls that came more than once and must not. */
export function doubledIn(seen: readonly SeenCall[], workflowId: string): readonly string[] {
  const own = seen.filter(({ key, tool }) => key.startsWith(`${workflowId}/`) && !AGAIN.has(tool));
  return own.map(({ key }) => key).filter((key, index, keys) => keys.indexOf(key) !== index);
}

/** Returns how each call of the run ended, as its ledger says it, in the order of the calls. */
async function outcomesOf({ run }: Scene): Promise<readonly string[]> {
  const told = (await run.ledger()).flatMap(({ fact }) => (fact.kind === 'outcome' ? [fact] : []));
  return told.toSorted((one, other) => (one.callId < other.callId ? -1 : 1)).map(({ outcome }) => outcome);
}

/** Returns the workflow of the newest release in `releases/`; undefined if there is none. */
export function releasedBundle(present: WorkflowBundle): WorkflowBundle | undefined {
  const folder = join(ROOT, 'releases');
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.tgz')) : [];
  const newest = names.toSorted().at(-1);
  if (newest === undefined) return undefined;
  const inside = 'package/dist/workflow-bundle.json';
  const text = execFileSync('tar', ['-xzOf', join(folder, newest), inside], { encoding: 'utf8', maxBuffer: 1 << 26 });
  // Sound: `npm run build` of that release wrote it.
  const { code } = JSON.parse(text) as WorkflowBundle;
  return { code: code.replace(MARK, MARK.exec(present.code)?.[0] ?? ''), buildId: 'release' };
}

/** Workers of this build take only bundles with its own mark. */
const MARK = /^\/\*.*?\*\//;

/** Returns every point at which a recorded run waits: where its history does not end with its end. */
export function waitingPoints(): readonly string[] {
  return SCENARIOS.flatMap(({ points }) => points).filter((point) => {
    // Sound: the recorder wrote it.
    const recorded = besides(point, 'json') as
      | { readonly events: readonly { readonly eventType: string }[] }
      | undefined;
    return recorded !== undefined && !OVER.test(recorded.events.at(-1)?.eventType ?? '');
  });
}

/** True if a request waits at the point: an answer to one was recorded there. */
export function isAsking(point: string): boolean {
  // Sound: the recorder wrote it.
  const inputs = besides(point, 'inputs.json') as RecordedInputs | undefined;
  return inputs?.accepted.some(({ update }) => ANSWERS.has(update)) === true;
}

const ANSWERS: ReadonlySet<string> = new Set(Object.values(LEAST).map(([update]) => update));
const OVER = /WORKFLOW_EXECUTION_(?:COMPLETED|FAILED|CANCELED|TERMINATED|TIMED_OUT|CONTINUED_AS_NEW)$/;
const HISTORIES = join(ROOT, 'test/replay/histories');

/** Returns what was recorded of a point; undefined if nothing was. */
function besides(point: string, extension: string): unknown {
  const name = `${historyNameOf(point)}.${extension}`;
  const files = readdirSync(HISTORIES, { recursive: true, encoding: 'utf8' }).toSorted();
  const file = files.findLast((path) => basename(path) === name);
  return file === undefined ? undefined : JSON.parse(readFileSync(join(HISTORIES, file), 'utf8'));
}
