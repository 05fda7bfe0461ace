/**
 * Runs whose tools are dispatched by the test itself: it stands where the activity stands that holds a server's connection open, and
 * tells the run of questions as that does. Everything else is real.
 */
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { RunHandle } from '../../client/index.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldWord } from '../../contracts/wire/legacy-2025.ts';
import { QUERIES, UPDATES } from '../../contracts/names.ts';
import { createWorkerDataConverter } from '../../workers/codec.ts';
import { toolSideActivities } from '../../workers/composition.ts';
import { NAME } from './builders/provision.ts';
import { startRawServer } from './mcp-raw-server.ts';
import { replayOwn } from './run-record.ts';
import { until } from './until.ts';
import { startWorld, type World } from './world.ts';

/** A call that the test has in its hands. */
export interface Flight {
  readonly input: DispatchInput;
  /** Once Temporal says that nobody waits for it. */
  isCancelled(): boolean;
  end(result: DispatchResult): void;
  /** As Temporal tells of a worker that is gone. */
  lose(): void;
}

export interface HeldScene {
  readonly world: World;
  /** Waits until this call of a run is dispatched. */
  flight(run: RunHandle, callId?: string, attempt?: number): Promise<Flight>;
  /** All that were dispatched so far. */
  flightsOf(run: RunHandle): readonly Flight[];
  /** Waits until the answer to a call is asked for, whose worker is lost. */
  asksForAnswer(run: RunHandle): Promise<Flight>;
}

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

export const DONE: Ended = {
  kind: 'ended',
  outcome: { kind: 'succeeded', result: { content: [{ type: 'text', text: 'done' }] } },
};
export const HOLD_SECONDS = 600;
export const UNKNOWN: Ended = {
  kind: 'ended',
  outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'Its worker has gone.' },
};
/** What a worker says that has to go, where another one can ask for the answer. */
export const LOST: Ended = {
  ...UNKNOWN,
  resume: { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' },
};

const definition = (name: string) => ({ name, description: 'Does it.', inputSchema: { type: 'object' } });

export function useHeldScene(): () => HeldScene {
  const closing: (() => Promise<unknown>)[] = [];
  const flights: Flight[] = [];
  const resumes: Flight[] = [];
  let world: World;

  beforeAll(async () => {
    const server = await startRawServer({ era: 'legacy', pages: [['do', 'visit'].map(definition)] });
    closing.push(() => server.close());
    const connected = { url: server.url, taskQueue: 'desk', credentials: { kind: 'none' as const } };
    const visit = { action: 'ask' as const, approvers: { ids: ['ann'] }, remindAfterSeconds: 1 };
    world = await startWorld({
      role: 'runs',
      config: {
        servers: {
          desk: { ...connected, elicitation: { holdSeconds: HOLD_SECONDS } },
          mute: connected,
        },
        policy: {
          approvers: { ids: ['ann'] },
          servers: { desk: { tools: { do: 'allow', visit } }, mute: { tools: { do: 'allow' } } },
        },
      },
    });
    const { engine, config, artifacts, client } = world;
    const loaded = { config, baseDirectory: engine.directory, path: undefined };
    const { discoverTools } = await toolSideActivities(loaded, artifacts, client);
    const connection = await NativeConnection.connect({ address: engine.server.address });
    const worker = await Worker.create({
      connection,
      taskQueue: 'desk',
      dataConverter: createWorkerDataConverter(config),
      activities: {
        discoverTools,
        callTool: (input: DispatchInput) => fly(input, flights),
        resumeCall: (input: DispatchInput) => fly(input, resumes),
      },
    });
    const running = worker.run();
    closing.push(async () => {
      for (const flight of [...flights, ...resumes]) flight.end(DONE);
      worker.shutdown();
      await running;
      await connection.close();
    });
  });
  afterEach(async () => {
    await replayOwn(world);
  });
  afterAll(async () => {
    for (const close of closing.toReversed()) await close();
    await world.stop();
  });
  return () => ({
    world,
    flightsOf: ({ runId }) => flights.filter(({ input }) => input.run.workflowId === runId),
    asksForAnswer: async ({ runId }) =>
      await until(async () => resumes.find(({ input }) => input.run.workflowId === runId), {
        what: `who asks for the answer to a call of ${runId}`,
      }),
    flight: async ({ runId }, callId = 't1.c0', attempt = 1) =>
      await until(
        async () =>
          flights.find(
            ({ input }) => input.run.workflowId === runId && input.callId === callId && input.attempt === attempt,
          ),
        { what: `dispatch ${attempt} of ${callId} of ${runId}` },
      ),
  });
}

function fly(input: DispatchInput, flights: Flight[]): Promise<DispatchResult> {
  const context = Context.current();
  return new Promise((resolve, reject) => {
    const beat = setInterval(() => context.heartbeat(), 200);
    let cancelled = false;
    context.cancelled.catch(() => {
      cancelled = true;
    });
    flights.push({
      input,
      isCancelled: () => cancelled,
      end: (result) => {
        clearInterval(beat);
        resolve(result);
      },
      lose: () => {
        clearInterval(beat);
        reject(ApplicationFailure.nonRetryable('The worker is gone.'));
      },
    });
  });
}

/** What the dispatch tells of. */
export function asking({ input }: Flight, over: Partial<HeldQuestions> = {}): HeldQuestions {
  const { callId, attempt } = input;
  return { callId, attempt, round: 1, requests: { who: NAME }, ...over };
}

/** As the dispatch tells its run. @throws the code with which it is refused */
export async function tell({ client }: World, { input }: Flight, asked: unknown, updateId: string): Promise<HeldAck> {
  const handle = client.workflow.getHandle(input.run.workflowId, input.runId);
  return await handle.executeUpdate<HeldAck, [unknown]>(UPDATES.inputAsked, { args: [asked], updateId });
}

/** The question of this round, under the id that the dispatch uses. */
export async function tellRound(world: World, flight: Flight, round = 1): Promise<HeldAck> {
  const { callId, attempt } = flight.input;
  return await tell(world, flight, asking(flight, { round }), `held/${callId}/${attempt}/${round}`);
}

/** The code with which the run refuses what the dispatch tells. */
export async function refusalOfTold(told: Promise<unknown>): Promise<string | undefined> {
  try {
    await told;
    return undefined;
  } catch (error) {
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : error;
    return cause instanceof ApplicationFailure ? (cause.type ?? undefined) : String(cause);
  }
}

/** As the dispatch asks what became of its question. */
export async function wordOf({ client }: World, { input }: Flight, round = 1): Promise<HeldWord> {
  const { callId, attempt, runId, run } = input;
  const handle = client.workflow.getHandle(run.workflowId, runId);
  return await handle.query<HeldWord, [HeldPlace]>(QUERIES.heldInput, { callId, attempt, round });
}
