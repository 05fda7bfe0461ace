/**
 * Starts runs whose tools the test itself dispatches. The test plays the activity that holds a server's
 * connection open, and reports questions to the run as that activity does. Everything else is real.
 */
import { Context } from '@temporalio/activity';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { RunHandle } from '../../../client/index.ts';
import { QUERIES, UPDATES } from '../../../contracts/names.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldWord } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { createWorkerDataConverter } from '../../../workers/codec.ts';
import { toolSideActivities } from '../../../workers/composition.ts';
import { NAME } from '../builders/provision.ts';
import { startRawServer } from '../servers/raw-server.ts';
import { until } from '../until.ts';
import { during } from '../world/during.ts';
import { startOwnWorker } from '../world/own-worker.ts';
import { useWorld, type World } from '../world/world.ts';

/** A dispatch that the test has taken. */
export interface Flight {
  readonly input: DispatchInput;
  /** True once Temporal reports that nobody waits for the dispatch. */
  isCancelled(): boolean;
  end(result: DispatchResult): void;
  /** Ends the dispatch as Temporal does if its worker is lost. */
  lose(): void;
}

export interface HeldScene {
  readonly world: World;
  /** Waits until this call of a run is dispatched. */
  flight(run: RunHandle, callId?: string, attempt?: number): Promise<Flight>;
  /** Returns all dispatches so far. */
  flightsOf(run: RunHandle): readonly Flight[];
  /** Waits until the run asks for the answer to a call whose worker is lost. */
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
/** The result of a worker that must end, if another one can ask for the answer. */
export const LOST: Ended = {
  ...UNKNOWN,
  resume: { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' },
};

const definition = (name: string) => ({ name, description: 'Does it.', inputSchema: { type: 'object' } });

export function useHeldScene(): HeldScene {
  const flights: Flight[] = [];
  const resumes: Flight[] = [];
  const server = during(() => startRawServer({ era: 'legacy', pages: [['do', 'visit'].map(definition)] }));
  const world = useWorld(() => {
    const connected = { url: server.url, taskQueue: 'desk', credentials: { kind: 'none' as const } };
    const visit = { action: 'ask' as const, approvers: { ids: ['ann'] }, remindAfterSeconds: 1 };
    return {
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
    };
  });
  during(async () => {
    const { engine, config, artifacts, client } = world;
    const loaded = { config, baseDirectory: engine.directory, path: undefined };
    const { discoverTools } = await toolSideActivities(loaded, artifacts, client);
    const worker = await startOwnWorker(engine.server.address, {
      taskQueue: 'desk',
      dataConverter: createWorkerDataConverter(config),
      activities: {
        discoverTools,
        callTool: (input: DispatchInput) => fly(input, flights),
        resumeCall: (input: DispatchInput) => fly(input, resumes),
      },
    });
    return {
      stop: async () => {
        for (const flight of [...flights, ...resumes]) flight.end(DONE);
        await worker.stop();
      },
    };
  });
  return {
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
  };
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

/** Makes the questions that the dispatch reports. */
export function asking({ input }: Flight, over: Partial<HeldQuestions> = {}): HeldQuestions {
  const { callId, attempt } = input;
  return { callId, attempt, round: 1, requests: { who: NAME }, ...over };
}

/**
 * Reports questions to the run as the dispatch does.
 * @throws the code of the refusal
 */
export async function tell({ client }: World, { input }: Flight, asked: unknown, updateId: string): Promise<HeldAck> {
  const handle = client.workflow.getHandle(input.run.workflowId, input.runId);
  return await handle.executeUpdate<HeldAck, [unknown]>(UPDATES.inputAsked, { args: [asked], updateId });
}

/** Reports the question of this round, under the id that the dispatch uses. */
export async function tellRound(world: World, flight: Flight, round = 1): Promise<HeldAck> {
  const { callId, attempt } = flight.input;
  return await tell(world, flight, asking(flight, { round }), `held/${callId}/${attempt}/${round}`);
}

/** Returns the code with which the run refuses a report. */
export async function refusalOfTold(told: Promise<unknown>): Promise<string | undefined> {
  try {
    await told;
    return undefined;
  } catch (error) {
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : error;
    return cause instanceof ApplicationFailure ? (cause.type ?? undefined) : String(cause);
  }
}

/** Asks, as the dispatch does, what became of its question. */
export async function wordOf({ client }: World, { input }: Flight, round = 1): Promise<HeldWord> {
  const { callId, attempt, runId, run } = input;
  const handle = client.workflow.getHandle(run.workflowId, runId);
  return await handle.query<HeldWord, [HeldPlace]>(QUERIES.heldInput, { callId, attempt, round });
}
